#!/bin/sh
# sh scripts/debian.sh COMMAND PACKAGE …: have a command that some tests need, from Debian's package where we may
# install it. Where we may not, say how; the tests that need it then say that they were left out.
while [ $# -ge 2 ]; do
  command=$1 package=$2
  shift 2
  command -v "$command" >/dev/null && continue
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing $package"
    export DEBIAN_FRONTEND=noninteractive
    { apt-get install -qq -y --no-install-recommends "$package" ||
      { apt-get update -qq && apt-get install -qq -y --no-install-recommends "$package"; }; } >/dev/null 2>&1
  fi
  command -v "$command" >/dev/null && continue
  echo "NOTE: $command is missing and some tests need it. Debian, Ubuntu: apt-get install $package"
done
