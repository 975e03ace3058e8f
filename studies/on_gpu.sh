#!/bin/bash
# All results that need a GPU, in parts that go on where they were stopped: bash studies/on_gpu.sh PART...
#
#   efficientnet   votes of EfficientNet-lite0 at sigma .12 and .25        needs $DATA/imagenet.npz and its two packages
#   train          ResNet-50 on Tiny ImageNet at sigma .25, .5 and 1.0     needs $DATA/train-*.npz and $DATA/val.npz
#   resnet50       its votes for all studies with n = 10,000               after train
#   headline50     its votes for the headline, n = 100,000, sigma 1.0      after train
#   followed       EfficientNet-lite0 fine-tuned without labels, sigma .25 needs $DATA/others as well
#   resnet20       votes of the shipped networks for CIFAR-10              needs $DATA/cifar-10-batches-bin/test_batch.bin
#   radius         their votes for the study at-radius, few images          the same
#   million        tables for n = 1,000,000 at sigma .25 and .5            the same
#   consistency    ResNet-20 trained with and without consistency          needs all of CIFAR-10
#   resnet110      ResNet-110 at sigma 1.0 and its headline                the same
#   tables         all tables of the votes that are there, a process for each network and sigma
#   pack           votes, results and cards as tar files of at most 15 MiB in $OUT
#
# DATA, OUT, DEVICE, COUNT, CIFAR_COUNT and FEW (images), SAMPLES (n), LARGE (n of the headline), MILLION, EPOCHS, MINUTES (for one study to draw) and CHANGES can be set:
# small ones try the same code on a CPU.
set -euo pipefail
DATA=${DATA:-runs/gpu} OUT=${OUT:-runs/out} DEVICE=${DEVICE:-cuda}
COUNT=${COUNT:-200} SAMPLES=${SAMPLES:-10000} LARGE=${LARGE:-100000} MILLION=${MILLION:-1000000} EPOCHS=${EPOCHS:-60} MINUTES=${MINUTES:-9}
CHANGES=${CHANGES:-fp16,bf16,int8-twin,prune:0.05,prune:0.1,prune:0.2,fp16-weights,bf16-weights}
SIGMAS=${SIGMAS:-0.25,0.5,1.0} PYTHON=${PYTHON:-python3} CIFAR_COUNT=${CIFAR_COUNT:-500} FEW=${FEW:-100}
PRECISION=() COMPILE=()
[ "$DEVICE" = cpu ] || { PRECISION=(--precision tf32) COMPILE=(--compile); }  # compiling pays where millions of votes are drawn
export PYTHONPATH="$PWD/src${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
mkdir -p "$OUT" runs/networks

study() { $PYTHON -m studies "$@" --full --no-figures --out "$RESULTS"; }
draw() { study "$@" --draw-only --device "$DEVICE" "${PRECISION[@]}" --minutes "$MINUTES"; }
RESULTS=${RESULTS:-runs/results}

TINY=(--networks tiny-resnet50 --sigmas "$SIGMAS" --count "$COUNT" --samples "$SAMPLES" --data "tiny-imagenet:$DATA" --weights runs/networks)
TINY_LARGE=(--networks tiny-resnet50 --sigmas 1.0 --count "$COUNT" --samples "$LARGE" --data "tiny-imagenet:$DATA" --weights runs/networks --approximations int8-twin
  --store runs/large)
LITE=(--networks efficientnet-lite0 --sigmas 0.12,0.25 --count "$COUNT" --samples "$SAMPLES" --data "$DATA/imagenet.npz")
FOLLOWED=(--networks efficientnet-lite0-followed --sigmas 0.25 --count "$COUNT" --samples "$SAMPLES" --data "$DATA/imagenet.npz" --weights runs/networks)
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
headline50() { draw headline "${TINY_LARGE[@]}" "${COMPILE[@]}"; }
followed() {
  $PYTHON -m studies.imagenet_networks follow "$FOLLOW" --sigma 0.25 --device "$DEVICE" ${FOLLOW_EPOCHS:+--epochs "$FOLLOW_EPOCHS"}
  each_study draw "${FOLLOWED[@]}"
}
FOLLOW=${FOLLOW:-folder:$DATA/others}
resnet20() {
  each_study draw "${CIFAR[@]}" --count "$CIFAR_COUNT" --samples "$SAMPLES"
  draw large-np "${CIFAR[@]}" --sigmas 1.0 --count "$CIFAR_COUNT" --samples "$SAMPLES" --approximations int8-twin
  draw samples "${CIFAR[@]}" --count "$FEW" --samples "$SAMPLES,$LARGE" --approximations fp16,bf16,int8-twin
  draw gamma-as-published "${CIFAR[@]}" --sigmas 0.5 --count "$FEW" --samples "$SAMPLES"
}
radius() { draw at-radius "${CIFAR[@]}" --sigmas 0.25,1.0 --count "$FEW" --samples "$SAMPLES" --approximations "$CHANGES"; }
# Votes of a million are too many to carry: the tables are made here.
million() {
  study samples "${CIFAR[@]}" --sigmas "${MILLION_SIGMAS:-0.25,0.5}" --count "$FEW" --samples "$MILLION" --approximations fp16,bf16,int8-twin --store runs/million \
    --device "$DEVICE" "${PRECISION[@]}" "${COMPILE[@]}" --minutes "$MINUTES"
}
consistency() {
  $PYTHON benchmarks/consistency.py --network cifar-resnet20 --data "cifar10:$DATA" --sigma 0.5 --epochs "${CONSISTENCY_EPOCHS:-40}" \
    --strengths "${STRENGTHS:-0,10}" --images "$CIFAR_COUNT" --samples "$SAMPLES" --device "$DEVICE" | tee "$OUT/consistency.md"
}
resnet110() {
  $PYTHON -m recert train --model cifar-resnet110 --data "cifar10:$DATA" --noise gaussian:1.0 --device "$DEVICE" --out runs/networks
  cp runs/networks/cifar-resnet110-1.safetensors runs/networks/cifar-resnet110-1.0.safetensors
  draw headline --networks cifar-resnet110 --sigmas 1.0 --count "$CIFAR_COUNT" --samples "$LARGE" --data "cifar10:$DATA" --weights runs/networks --approximations int8-twin \
    --store runs/large "${COMPILE[@]}"
}

# A line of arguments for each table of what a store holds.
tables_of() {
  local store=$1 network=$2 sigma=$3 change; shift 3
  if ! [ -d "$store/$network-$sigma-original" ]; then return; fi
  for change in ${CHANGES//,/ }; do echo "speedup $* --sigmas $sigma --approximations $change"; done
  echo "disparity $* --sigmas $sigma --approximations $CHANGES"
  echo "accuracy $* --sigmas $sigma --approximations original,$CHANGES"
  echo "distribution $* --sigmas $sigma --approximations original"
  echo "gamma $* --sigmas $sigma --approximations int8-twin"
}
all_tables() {
  local sigma
  for sigma in ${SIGMAS//,/ }; do
    tables_of runs/studies tiny-resnet50 "$sigma" "${TINY[@]}" --out "$RESULTS"
    tables_of runs/studies cifar-resnet20 "$sigma" "${CIFAR[@]}" --count "$CIFAR_COUNT" --samples "$SAMPLES" --out "$RESULTS"
  done
  for sigma in 0.12 0.25; do tables_of runs/studies efficientnet-lite0 "$sigma" "${LITE[@]}" --out "$RESULTS"; done
  for sigma in 0.25 1.0; do  # .5 is made from votes in a file
    if [ -d "runs/studies/cifar-resnet20-$sigma-original" ]; then
      echo "at-radius ${CIFAR[*]} --sigmas $sigma --count $FEW --samples $SAMPLES --approximations $CHANGES --out $RESULTS"
    fi
  done
  tables_of runs/studies efficientnet-lite0-followed 0.25 "${FOLLOWED[@]}" --out "$RESULTS"
  if [ -d runs/large/tiny-resnet50-1.0-original ]; then echo "headline ${TINY_LARGE[*]} --out $RESULTS"; fi
  if [ -d runs/large/cifar-resnet110-1.0-original ]; then
    echo "headline --networks cifar-resnet110 --sigmas 1.0 --count "$CIFAR_COUNT" --samples $LARGE --approximations int8-twin --store runs/large --out $RESULTS"
  fi
  if [ -d runs/studies/cifar-resnet20-1.0-original ]; then
    echo "large-np ${CIFAR[*]} --sigmas 1.0 --count $CIFAR_COUNT --samples $SAMPLES --approximations int8-twin --out $RESULTS"
    echo "samples ${CIFAR[*]} --count "$FEW" --samples $SAMPLES,$LARGE --approximations fp16,bf16,int8-twin --out $RESULTS"
    echo "gamma-as-published ${CIFAR[*]} --sigmas 0.5 --count $FEW --samples $SAMPLES --out $RESULTS"
  fi
}
# As many at once as there are cores: they load no network.
tables() { all_tables | OMP_NUM_THREADS=1 xargs -P "${AT_ONCE:-$(nproc)}" -L 1 "$PYTHON" -m studies --full --no-figures --no-draw; }
pack() {
  local store
  for store in studies large; do
    if [ -d "runs/$store" ]; then $PYTHON -c "
import pathlib, sys
from studies.run import pack
print(*pack(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])))" "runs/$store" "$OUT/$store.tar"; fi
  done
  tar -czf "$OUT/results.tgz" --exclude '*.safetensors' $(ls -d runs/results runs/networks 2>/dev/null)
}

for part in "$@"; do
  echo "== $part, $(date -u +%H:%M:%S)"
  "$part"
done
echo "== done, $(date -u +%H:%M:%S)"
