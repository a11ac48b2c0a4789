#!/usr/bin/env bash
# What is claimed of a GPU host, tried on one: run it in a clean clone on a machine with a GPU, PyCUDA and nvcc.
#
#     bash tests/hardware/smoke.sh [FOLDER FOR LOGS]
#
# It prints a line for each claim and exits 1 if one does not hold. It leaves the checkout as it found it.
set -uo pipefail
cd "$(dirname "$0")/../.."
out=${1:-$(mktemp -d)}
mkdir -p "$out"
python=${PYTHON:-python3}
doit() { "$python" -m doit "$@"; }
failed=0
claim() { # claim WORDS CONDITION...
    local words=$1
    shift
    if "$@"; then echo "holds: $words"; else echo "DOES NOT HOLD: $words"; failed=1; fi
}
verdicts() { # verdicts REPORT EXPRESSION: a Python expression over `r`, the report
    "$python" -c 'import json, sys; r = json.load(open(sys.argv[1])); sys.exit(not eval(sys.argv[2]))' "$1/result.json" "$2"
}
seconds() { local began; began=$(date +%s.%N); "$@"; local status=$?; echo "seconds: $(echo "$(date +%s.%N) - $began" | bc 2>/dev/null || "$python" -c "import time; print(round(time.time() - $began, 2))")"; return $status; }

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv
export TOUCHGATE_RESULTS_DIR=$out/.results XDG_CACHE_HOME=$out/.cache
head=$(git rev-parse HEAD)

echo "== smoke on the GPU, nothing known"
seconds doit --all --require-device --expect-head "$head" --report-dir "$out/first"
claim "every check of smoke passes on the GPU (exit 0)" [ $? = 0 ]
claim "kernel and vectors checks were measured on the GPU" verdicts "$out/first" \
    'all(c["verdict"] == "passed" and c["device"] not in (None, "emulated") for c in r["checks"] if c["kind"] in ("kernel", "vectors")) and len(r["checks"]) > 4'
echo "== again"
seconds doit --all --require-device --expect-head "$head" --report-dir "$out/second"
claim "the second time everything comes from results" verdicts "$out/second" 'r["exit"] == 0 and all(c["cached"] for c in r["checks"])'

echo "== emulated beside it: an emulated result never stands for a GPU's, nor the other way round"
seconds doit --all --device emulated --report-dir "$out/emulated"
claim "emulated checks were measured again" verdicts "$out/emulated" \
    'r["exit"] == 0 and all(c["device"] == "emulated" and not c["cached"] for c in r["checks"] if c["kind"] in ("kernel", "vectors"))'

echo "== a broken kernel"
cp kernels/gemv/gemv.cu "$out/.gemv.cu"
sed -i.bak 's/if (row < m) {/if (row < m - 1) {/' kernels/gemv/gemv.cu && rm kernels/gemv/gemv.cu.bak
doit --require-device --report-dir "$out/broken" gemv
claim "exit 1, and only the check of the broken kernel fails" verdicts "$out/broken" \
    'r["exit"] == 1 and [c["name"] for c in r["checks"] if c["verdict"] == "failed"] == ["gemv:kernel"]'
cp "$out/.gemv.cu" kernels/gemv/gemv.cu
doit --require-device --report-dir "$out/mended" gemv
claim "mended: the earlier pass stands again" verdicts "$out/mended" 'r["exit"] == 0 and all(c["cached"] for c in r["checks"])'

echo "== the lease"
doit --require-device --fresh --report-dir "$out/one" binary > "$out/one.log" 2>&1 &
one=$!
for _ in $(seq 200); do doit lease status --json > "$out/.holders"; grep -q '"pid"' "$out/.holders" && break; sleep 0.05; done
claim "the holder is shown while a check runs" grep -q '"pid"' "$out/.holders"
doit --require-device --fresh --lease-timeout 0 --report-dir "$out/two" rmsnorm > "$out/two.log" 2>&1
status=$?
claim "a second run that will not wait exits 75 (or found the host free again: 0)" [ $status = 75 -o $status = 0 ]
echo "second run: exit $status"
wait $one
claim "the first run passes" [ $? = 0 ]
doit --require-device --fresh rmsnorm > "$out/three.log" 2>&1 & three=$!
doit --require-device --fresh binary > "$out/four.log" 2>&1 & four=$!
wait $three; a=$?
wait $four; b=$?
claim "two runs at once both pass, one after the other" [ "$a$b" = 00 ]
grep -h waiting "$out/three.log" "$out/four.log"

echo "== kill -9 in the middle"
export TOUCHGATE_RESULTS_DIR=$out/.killed # nothing known again
"$python" -m doit --require-device gemv > "$out/killed.log" 2>&1 & killed=$! # not the function: its shell would be killed
for _ in $(seq 200); do doit lease status --json | grep -q '"pid"' && break; sleep 0.05; done
sleep 1
kill -9 $killed
wait $killed 2>/dev/null
seconds doit --require-device --report-dir "$out/after" gemv
claim "the host is free again, and only what was in flight is measured again" verdicts "$out/after" \
    'r["exit"] == 0 and [c["name"] for c in r["checks"] if not c["cached"]] in (["gemv:kernel"], ["gemv:compile", "gemv:kernel"])'

echo "== mutants"
seconds "$python" tests/hardware/mutants.py
claim "every mutant of every kernel is caught on the GPU" [ $? = 0 ]

echo "== suite full"
seconds doit --all --require-device --suite full --report-dir "$out/full"
claim "suite full exits 0" [ $? = 0 ]
rm -rf "$out/.results" "$out/.killed" "$out/.cache" "$out"/.gemv.cu "$out/.holders"
exit $failed
