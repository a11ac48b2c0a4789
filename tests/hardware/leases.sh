#!/usr/bin/env bash
# Leases of single GPUs, tried on a machine with GPUs: run it in a clean clone, with PyCUDA and nvcc. With two GPUs or more it
# tries that two runs share the host; with one it leaves that out and says so.
#
#     bash tests/hardware/leases.sh [FOLDER FOR LOGS]
#
# It prints a line for each claim and exits 1 if one does not hold. Everything it makes lies in that folder.
set -uo pipefail
cd "$(dirname "$0")/../.."
out=${1:-$(mktemp -d)}
mkdir -p "$out"
out=$(cd "$out" && pwd)
python=${PYTHON:-python3}
doit() { "$python" -m doit "$@"; }
failed=0
claim() { # claim WORDS CONDITION...
    local words=$1
    shift
    if "$@"; then echo "holds: $words"; else echo "DOES NOT HOLD: $words"; failed=1; fi
}
status() { # status EXPRESSION: a Python expression over `s`, what `doit lease status --json` says
    doit lease status --json | "$python" -c 'import json, sys; s = json.load(sys.stdin); sys.exit(not eval(sys.argv[1]))' "$1"
}
until_true() { # until_true COMMAND...: at most 30 seconds
    local end=$((SECONDS + 30))
    until "$@"; do [ $SECONDS -lt $end ] || return 1; sleep 0.1; done
}
exits() { # exits PID STATUS
    wait "$1"
    local status=$?
    [ $status = "$2" ] || { echo "exit status $status"; return 1; }
}

nvidia-smi --query-gpu=index,uuid,name --format=csv
count=$(nvidia-smi --query-gpu=uuid --format=csv,noheader | wc -l)
[ "$count" -ge 1 ] || { echo "there is no GPU here"; exit 3; }
[ "$count" -gt 2 ] && count=2
shown=$(nvidia-smi --query-gpu=uuid --format=csv,noheader | head -$count | paste -sd,)
export CUDA_VISIBLE_DEVICES=$shown
export TOUCHGATE_RESULTS_DIR=$out/results TOUCHGATE_LEASE_DIR=$out/leases XDG_CACHE_HOME=$out/cache
mkdir -p -m 700 "$out/leases"

# A repository with three lanes that want one GPU each. A check says what it sees, and goes on until it is let.
made=$out/repository
rm -rf "$made" && mkdir -p "$made/tasks" && cd "$made" || exit 3
cat > pyproject.toml <<'TOML'
[tool.doit]
loader = "touchgate"
reporter = "touchgate"
TOML
{
    echo 'lanes:'
    for lane in a b c; do
        echo "  $lane: {paths: [$lane/**], device: gpu, env: [OUT, PYTHON], checks: [command: sh held.sh $lane]}"
    done
} > tasks/lanes.yml
cat > held.sh <<'SH'
"${PYTHON:-python3}" - <<'PY' || exit 1
import pycuda.driver as cuda
cuda.init()
assert cuda.Device.count() == 1, cuda.Device.count()
PY
echo "$CUDA_VISIBLE_DEVICES $TOUCHGATE_LEASE_TOKEN" > "$OUT/$1.new" && mv "$OUT/$1.new" "$OUT/$1.seen"
while [ ! -e "$OUT/$1.go" ]; do sleep 0.05; done
SH
git init -q -b main . && git add -A && git -c user.name=a -c user.email=a@example.org commit -q -m first
export OUT=$out
rm -f "$out"/*.seen "$out"/*.go

echo "== runs at once, one GPU each; the one that is left over waits"
doit --require-device a > "$out/a.log" 2>&1 & a=$!
claim "the first run holds a GPU" until_true test -e "$out/a.seen"
if [ $count = 2 ]; then
    doit --require-device b > "$out/b.log" 2>&1 & b=$!
    claim "the second holds one beside it" until_true test -e "$out/b.seen"
else
    echo "left out: two runs beside each other, since there is one GPU"
fi
doit --require-device c > "$out/c.log" 2>&1 & c=$!
claim "the next one waits, first in the queue" until_true status '[q["position"] for q in s["queue"]] == [1]'
read -r gpu_a token_a < "$out/a.seen"
if [ $count = 2 ]; then
    claim "two GPUs are held, under two tokens" status 'len({h["resource"] for h in s["holders"]}) == 2 == len({h["token"] for h in s["holders"]})'
    read -r gpu_b token_b < "$out/b.seen"
    claim "each check sees its own GPU and no other" [ "$gpu_a" != "$gpu_b" -a "${gpu_a#*,}" = "$gpu_a" -a "${gpu_b#*,}" = "$gpu_b" ]
    claim "both are those that were shown" [ "$(printf '%s\n' "$gpu_a" "$gpu_b" | sort)" = "$(tr , '\n' <<< "$shown" | sort)" ]
    claim "the later grant has the larger token" [ "$token_b" -gt "$token_a" ]
else
    token_b=$token_a
    claim "the check sees the GPU that was shown" [ "$gpu_a" = "$shown" ]
fi
claim "the one that waits has not started" [ ! -e "$out/c.seen" ]
claim "it says who is in the way" grep -q '^waiting for 1 GPU.*position 1' "$out/c.log"

echo "== what does not fit now"
doit lease run --gpus $count --timeout 0 -- true > "$out/all.log" 2>&1
claim "all GPUs at once are not had meanwhile: 75" [ $? = 75 ]
doit lease run --timeout 0 -- true > "$out/host.log" 2>&1
claim "nor the whole host: 75" [ $? = 75 ]
doit lease run --gpus 99 -- true > "$out/more.log" 2>&1
claim "more GPUs than there are is refused, not waited for: 75" [ $? = 75 ]

echo "== the first ends"
touch "$out/a.go"
claim "the first run passes" exits $a 0
claim "the one that waited has its GPU now" until_true test -e "$out/c.seen"
read -r gpu_c token_c < "$out/c.seen"
claim "it is the one that the first had" [ "$gpu_c" = "$gpu_a" ]
claim "its token is larger still" [ "$token_c" -gt "$token_b" ]
touch "$out/b.go" "$out/c.go"
[ $count = 2 ] && claim "the second passes" exits $b 0
claim "the one that waited passes" exits $c 0
claim "nothing is held any more" status 's["holders"] == [] and s["queue"] == []'

echo "== doit lease run"
seen=$(doit lease run --gpus 1 -- sh -c 'echo $CUDA_VISIBLE_DEVICES' 2> "$out/run.log")
claim "a command sees one GPU" [ -n "$seen" -a "${seen#*,}" = "$seen" ]
doit lease run --gpus $count -- sh -c 'exit 41' 2> "$out/code.log"
claim "its exit code is the run's" [ $? = 41 ]
rm -f "$out"/*.seen "$out"/*.go
touch "$out/a.go"
doit lease run --gpus 1 -- "$python" -m doit --fresh --require-device a > "$out/inside.log" 2>&1
claim "a run inside a lease does not wait for itself" [ $? = 0 ]

echo "== a foreign process on a GPU"
"$python" -c '
import sys, time
import pycuda.driver as cuda
cuda.init()
context = cuda.Device(0).make_context()
print("on it", flush=True)
sys.stdin.read()
context.pop()' < <(sleep 60) > "$out/foreign.log" 2>&1 & foreign=$!
claim "a process of somebody's is on the first GPU" until_true grep -q 'on it' "$out/foreign.log"
doit lease run --gpus $count -- true > "$out/unfit.log" 2>&1
code=$?
cat "$out/unfit.log"
claim "the host is not fit: 69, and it says why" [ $code = 69 ]
claim "it was left running" kill -0 $foreign
kill $foreign 2> /dev/null
wait $foreign 2> /dev/null

rm -rf "$out/results" "$out/cache" "$made"
exit $failed
