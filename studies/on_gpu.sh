#!/bin/bash
# All results that need a GPU, in parts that go on where they were stopped: bash studies/on_gpu.sh PART...
#
#   efficientnet   votes of EfficientNet-lite0 at sigma .12 and .25        needs $DATA/imagenet.npz and its two packages
#   train          ResNet-50 on Tiny ImageNet at sigma .25, .5 and 1.0     needs $DATA/train-*.npz and $DATA/val.npz
#   resnet50       its votes for all studies with n = 10,000               after train
#   headline50     its votes for the headline, n = 100,000, sigma 1.0      after train
#   followed       EfficientNet-lite0 fine-tuned without labels, sigma .25 needs $DATA/others as well
#   resnet20       votes of the shipped networks for CIFAR-10              needs $DATA/cifar-10-batches-bin/test_batch.bin
#   million        tables for n = 1,000,000 at sigma .25 and .5            the same
#   consistency    ResNet-20 trained with and without consistency          needs all of CIFAR-10
#   resnet110      ResNet-110 at sigma 1.0 and its headline                the same
#   tables         all tables of the votes that are there, a process for each network and sigma
#   pack           votes, results and cards as tar files of at most 15 MiB in $OUT
#
# DATA, OUT, DEVICE, COUNT (images), SAMPLES (n), LARGE (n of the headline), MILLION, EPOCHS, MINUTES (for one study to draw) and CHANGES can be set:
# small ones try the same code on a CPU.
set -euo pipefail
DATA=${DATA:-runs/gpu} OUT=${OUT:-runs/out} DEVICE=${DEVICE:-cuda}
COUNT=${COUNT:-200} SAMPLES=${SAMPLES:-10000} LARGE=${LARGE:-100000} MILLION=${MILLION:-1000000} EPOCHS=${EPOCHS:-60} MINUTES=${MINUTES:-9}
CHANGES=${CHANGES:-fp16,bf16,int8-twin,prune:0.05,prune:0.1,prune:0.2,fp16-weights,bf16-weights}
SIGMAS=${SIGMAS:-0.25,0.5,1.0} PYTHON=${PYTHON:-python3}
PRECISION=(); [ "$DEVICE" = cpu ] || PRECISION=(--precision tf32)
export PYTHONPATH="$PWD/src${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
mkdir -p "$OUT" runs/networks

study() { $PYTHON -m studies "$@" --full --no-figures --out "$RESULTS"; }
draw() { study "$@" --draw-only --device "$DEVICE" "${PRECISION[@]}" --minutes "$MINUTES"; }
RESULTS=${RESULTS:-runs/results}

TINY=(--networks tiny-resnet50 --sigmas "$SIGMAS" --count "$COUNT" --samples "$SAMPLES" --data "tiny-imagenet:$DATA" --weights runs/networks)
TINY_LARGE=(--networks tiny-resnet50 --sigmas 1.0 --count "$COUNT" --samples "$LARGE" --data "tiny-imagenet:$DATA" --weights runs/networks --approximations int8-twin)
LITE=(--networks efficientnet-lite0 --sigmas 0.12,0.25 --count "$COUNT" --samples "$SAMPLES" --data "$DATA/imagenet.npz")
FOLLOWED=(--networks efficientnet-lite0 --sigmas 0.25 --count "$COUNT" --samples "$SAMPLES" --data "$DATA/imagenet.npz" --weights runs/networks --store runs/followed)
CIFAR=(--networks cifar-resnet20 --sigmas "$SIGMAS" --data "cifar10:$DATA")

# The studies of one network with n = 10,000: what the first has drawn is nearly all that the others want.
each_study() {
  local first=$1; shift
  "$first" speedup "$@" --approximations "$CHANGES"
  "$first" disparity "$@" --approximations "$CHANGES"
  "$first" accuracy "$@" --approximations "original,$CHANGES"
  "$first" distribution "$@" --approximations original
  "$first" gamma "$@" --approximations int8-twin
}

efficientnet() { each_study draw "${LITE[@]}"; }
train() {
  local options=(); [ "$DEVICE" = cpu ] && options=(--no-compile --batch-size "${BATCH:-8}")
  $PYTHON -m studies.imagenet_networks train "tiny-imagenet:$DATA" --sigmas "$SIGMAS" --chain --epochs "$EPOCHS" --device "$DEVICE" "${options[@]}"
}
resnet50() { each_study draw "${TINY[@]}"; }
headline50() { draw headline "${TINY_LARGE[@]}"; }
followed() {
  $PYTHON -m studies.imagenet_networks follow "$FOLLOW" --sigma 0.25 --device "$DEVICE" ${FOLLOW_EPOCHS:+--epochs "$FOLLOW_EPOCHS"}
  RESULTS=runs/results-followed each_study draw "${FOLLOWED[@]}"
}
FOLLOW=${FOLLOW:-folder:$DATA/others}
resnet20() {
  each_study draw "${CIFAR[@]}" --count 500 --samples "$SAMPLES"
  draw large-np "${CIFAR[@]}" --sigmas 1.0 --samples "$SAMPLES" --approximations int8-twin
  draw samples "${CIFAR[@]}" --count 100 --samples "$SAMPLES,$LARGE" --approximations fp16,bf16,int8-twin
  draw gamma-as-published "${CIFAR[@]}" --sigmas 0.5 --samples "$SAMPLES"
}
# Votes of a million are too many to carry: the tables are made here.
million() {
  study samples "${CIFAR[@]}" --sigmas "${MILLION_SIGMAS:-0.25,0.5}" --count 100 --samples "$MILLION" --approximations fp16,bf16,int8-twin --store runs/million \
    --device "$DEVICE" "${PRECISION[@]}" --minutes "$MINUTES"
}
consistency() {
  $PYTHON benchmarks/consistency.py --network cifar-resnet20 --data "cifar10:$DATA" --sigma 0.5 --epochs "${CONSISTENCY_EPOCHS:-40}" \
    --strengths "${STRENGTHS:-0,10}" --images 500 --samples "$SAMPLES" --device "$DEVICE" | tee "$OUT/consistency.md"
}
resnet110() {
  $PYTHON -m recert train --model cifar-resnet110 --data "cifar10:$DATA" --noise gaussian:1.0 --device "$DEVICE" --out runs/networks
  cp runs/networks/cifar-resnet110-1.safetensors runs/networks/cifar-resnet110-1.0.safetensors
  draw headline --networks cifar-resnet110 --sigmas 1.0 --count 500 --samples "$LARGE" --data "cifar10:$DATA" --weights runs/networks --approximations int8-twin
}

table_of() { study "$@" --no-draw; }
tables() {
  local there=runs/studies sigma
  for sigma in ${SIGMAS//,/ }; do
    if [ -d "$there/tiny-resnet50-$sigma-original" ]; then each_study table_of "${TINY[@]}" --sigmas "$sigma" & fi
    if [ -d "$there/cifar-resnet20-$sigma-original" ]; then each_study table_of "${CIFAR[@]}" --count 500 --samples "$SAMPLES" --sigmas "$sigma" & fi
  done
  for sigma in 0.12 0.25; do
    if [ -d "$there/efficientnet-lite0-$sigma-original" ]; then each_study table_of "${LITE[@]}" --sigmas "$sigma" & fi
  done
  if [ -d runs/followed ]; then (RESULTS=runs/results-followed each_study table_of "${FOLLOWED[@]}") & fi
  wait
  if [ -d "$there/tiny-resnet50-1.0-original" ]; then table_of headline "${TINY_LARGE[@]}"; fi
}
pack() {
  local store
  for store in studies followed; do
    if [ -d "runs/$store" ]; then $PYTHON -c "
import pathlib, sys
from studies.run import pack
print(*pack(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])))" "runs/$store" "$OUT/$store.tar"; fi
  done
  tar -czf "$OUT/results.tgz" --exclude '*.safetensors' $(ls -d runs/results runs/results-followed runs/networks 2>/dev/null)
}

for part in "$@"; do
  echo "== $part, $(date -u +%H:%M:%S)"
  "$part"
done
echo "== done, $(date -u +%H:%M:%S)"
