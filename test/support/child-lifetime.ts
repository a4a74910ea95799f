// Child processes must end with the test runner, also when it is killed. A shell has the list of children and reads from a
// pipe, which the kernel closes when the runner ends; then the shell kills them.
import { type ChildProcess, spawn } from 'node:child_process'
import type { Writable } from 'node:stream'

const keeper = `
pids=' '
while read -r change pid; do
  case $change in
    began) pids="$pids$pid " ;;
    ended) pids="\${pids%% $pid *} \${pids#* $pid }" ;;
  esac
done
for pid in $pids; do kill -9 "$pid"; done`

let told: Writable | undefined

/** Ends with this process, at the latest. Returns the child. */
export function endWithRunner<C extends ChildProcess>(child: C): C {
  const { pid } = child
  // It did not start; its `error` event says why.
  if (pid === undefined) return child
  told ??= startKeeper()
  const tell = told
  tell.write(`began ${pid}\n`)
  child.once('exit', () => tell.write(`ended ${pid}\n`))
  return child
}

/** Detached, as a signal to the process group of the runner must not end it first. Keeps no event loop alive. */
function startKeeper(): Writable {
  const child = spawn('sh', ['-c', keeper], { detached: true, stdio: ['pipe', 'ignore', 'ignore'] })
  child.unref()
  if ('unref' in child.stdin && typeof child.stdin.unref === 'function') child.stdin.unref()
  return child.stdin
}
