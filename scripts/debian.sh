#!/bin/sh
# sh scripts/debian.sh PACKAGE COMMAND …: have one of these commands, from Debian's package where we may install it.
# Where we may not, say how. Never fails: the tests that need it say so, and with DRIFTQ_REQUIRE_SERVICES=1 they fail.
package=$1
shift
found() { for command in "$@"; do command -v "$command" >/dev/null && return 0; done; return 1; }
found "$@" && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "installing $package"
  export DEBIAN_FRONTEND=noninteractive
  { apt-get install -qq -y --no-install-recommends "$package" ||
    { apt-get update -qq && apt-get install -qq -y --no-install-recommends "$package"; }; } >/dev/null 2>&1
fi
found "$@" && exit 0
echo "NOTE: $package is missing, and some tests need it. Debian, Ubuntu: apt-get install $package"
exit 0
