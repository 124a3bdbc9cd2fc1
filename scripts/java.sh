#!/bin/sh
# Spark, for the demo, the tests and the pipeline, needs Java 17 or newer. Where there is none, install Debian's
# if we may, else say how. Everything but Spark works without it, so this never fails.
java=java
test -n "$JAVA_HOME" && java="$JAVA_HOME/bin/java"
release() { "$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1; }
test "$(release)" -ge 17 2>/dev/null && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "installing openjdk-17-jre-headless"
  export DEBIAN_FRONTEND=noninteractive
  { apt-get install -qq -y --no-install-recommends openjdk-17-jre-headless ||
    { apt-get update -qq && apt-get install -qq -y --no-install-recommends openjdk-17-jre-headless; }; } >/dev/null 2>&1
fi
test "$(release)" -ge 17 2>/dev/null && exit 0
echo "NOTE: Java 17 or newer is missing: 'make demo', 'make test' and 'driftq pipeline' need it for Spark."
echo "      Debian, Ubuntu: apt-get install openjdk-17-jre-headless · macOS: brew install openjdk@17"
echo "      or set JAVA_HOME to where it is. Everything else works without it."
