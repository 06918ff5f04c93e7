#!/usr/bin/env bash
# Tests greet.sh and prints the results in the Test Anything Protocol. Exits with 1 when a test fails.

cd "$(dirname "$0")" || exit 2
number=0
failed=0

check() {
  number=$((number + 1))
  local name=$1 expected=$2 got
  got=$(bash greet.sh "${@:3}")
  if [ "$got" = "$expected" ]; then
    echo "ok $number - $name"
  else
    echo "not ok $number - $name"
    echo "# expected: $expected"
    echo "# got:      $got"
    failed=1
  fi
}

echo "1..4"
check "greets in English" "Hello, Ada!" Ada
check "greets in German" "Hallo, Ada!" Ada de
check "greets in French" "Bonjour, Ada!" Ada fr
check "greets a person without a name" "Hello, stranger!"
exit "$failed"
