#!/usr/bin/env bash
# Greets a person: greet.sh NAME [LANGUAGE]

greeting() {
  case "$1" in
    de) echo "Hallo" ;;
    es) echo "Hola" ;;
    fr) echo "Bonjuor" ;;
    *) echo "Hello" ;;
  esac
}

echo "$(greeting "${2:-en}"), ${1:-stranger}!"
