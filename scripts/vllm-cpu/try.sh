#!/bin/sh
# Requests that show how a service works with a real upstream: chat, stream, tools, JSON, errors, aborts. Run by hand.
#
#   scripts/vllm-cpu/try.sh http://127.0.0.1:8080/v1 KEY MODEL
set -eu
url=$1 key=$2 model=$3
ask='"messages":[{"role":"user","content":"What is the capital of France?"}],"temperature":0'
weather='{"type":"function","function":{"name":"weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}}'
word='{"type":"json_schema","json_schema":{"name":"a","strict":true,"schema":{"enum":["yes","no"]}}}'

post() { # TITLE FIELDS [options of curl]
  title=$1 fields=$2
  shift 2
  printf '\n== %s\n' "$title"
  curl -sS "$@" -w '\n[%{http_code} after %{time_total} s]\n' "$url/chat/completions" -H "Authorization: Bearer $key" \
    -H 'Content-Type: application/json' -d "{\"model\":\"$model\",$fields}" || true
}

post chat "$ask,\"max_tokens\":4"
post stream "$ask,\"max_tokens\":4,\"stream\":true,\"stream_options\":{\"include_usage\":true}" -N
post 'a forced call' "$ask,\"max_tokens\":40,\"tools\":[$weather],\"tool_choice\":\"required\""
post 'a tool call that the model chooses, streamed' "$ask,\"max_tokens\":4,\"tools\":[$weather],\"stream\":true" -N
post JSON "$ask,\"max_tokens\":10,\"response_format\":$word"
post 'error: a token that does not exist' "$ask,\"logit_bias\":{\"99999999\":1}"
post 'error: a schema of no type' "$ask,\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"a\",\"schema\":{\"type\":\"x\"}}}"
post 'error: a prompt that is too long' "\"messages\":[{\"role\":\"user\",\"content\":\"$(printf 'word %.0s' $(seq 9000))\"}]"
post 'abandoned after 1 s' '"messages":[{"role":"user","content":"Count to 1000."}]' --max-time 1
post 'the next request starts immediately' "$ask,\"max_tokens\":1"
