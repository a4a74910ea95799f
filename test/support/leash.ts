// A child must not outlive the tests, however those end: of a runner that was killed nobody is left to stop it. A shell
// knows the children and reads from a pipe that the kernel closes when the runner is gone; then it kills them.
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
export function leashed<C extends ChildProcess>(child: C): C {
  const { pid } = child
  // It did not start, and says so by itself.
  if (pid === undefined) return child
  told ??= startKeeper()
  const tell = told
  tell.write(`began ${pid}\n`)
  child.once('exit', () => tell.write(`ended ${pid}\n`))
  return child
}

/** A session of its own, as a signal to the runner's group must not end it first. Holds no event loop open. */
function startKeeper(): Writable {
  const child = spawn('sh', ['-c', keeper], { detached: true, stdio: ['pipe', 'ignore', 'ignore'] })
  child.unref()
  if ('unref' in child.stdin && typeof child.stdin.unref === 'function') child.stdin.unref()
  return child.stdin
}
