#!/bin/sh
# Before a release: compress a certified network, show that it is still robust enough, and pack it with the evidence.
#
#     MODEL=digits DATA=digits REQUIRE='accuracy:0.25>=0.5' sh examples/pre-release.sh
#
# Leaves with 0 if there is a release, with 3 if the compressed network is not robust enough (or anything does not hold), with 1 if something
# cannot be read. What was certified before is kept in STORE: only the first run pays for it.
set -eu

: "${RECERT:=recert}" "${MODEL:?which model}" "${DATA:?which data}" "${REQUIRE:?which requirement, such as accuracy:0.25>=0.5}"
: "${APPROXIMATION:=int8}" "${NOISE:=gaussian:0.5}" "${COUNT:=100}" "${CERTIFY:=10000}" "${SAMPLES:=1000}"
: "${STORE:=runs/base}" "${OUT:=release}" "${FILE:=model.onnx}" "${KEY:=}"
mkdir -p "$OUT"

$RECERT certify --model "$MODEL" --data "$DATA" --count "$COUNT" --noise "$NOISE" --samples "$CERTIFY" --store "$STORE"
$RECERT compress --model "$MODEL" --approximation "$APPROXIMATION" --data "$DATA" --noise "$NOISE" --out "$OUT/$FILE"
$RECERT recertify --model "$OUT/$FILE" --data "$DATA" --count "$COUNT" --store "$STORE" --samples "$SAMPLES" \
    --out "$OUT/certificates.parquet" --require "$REQUIRE"
$RECERT bundle "$OUT/certificates.parquet" --model "$OUT/$FILE" --cache "$STORE" --out "$OUT/release.recert" ${KEY:+--key "$KEY"}
$RECERT check "$OUT/release.recert" --audit --data "$DATA" --original "$MODEL" ${KEY:+--public-key "$KEY.pub"}
