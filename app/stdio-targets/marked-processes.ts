// Ends processes of a server that have left its process group, as daemons do. All of them inherit a variable with a value
// of this run, and Linux shows with which environment a process was started; other systems do not.
import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'

export const RUN_VARIABLE = 'SVC_STDIO_RUN'

/** A process may start another while others are ended; one that keeps doing so is not followed for ever. */
const maxRounds = 5

/** Sends SIGKILL to all processes with `run` in their environment. Waits for no process. */
export async function killMarked(run: string): Promise<void> {
  if (!existsSync('/proc/self/environ')) return
  for (let round = 0, killed = 1; killed > 0 && round < maxRounds; round++) {
    const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
    killed = 0
    for (const pid of pids) if (await killIfMarked(pid, `${RUN_VARIABLE}=${run}`)) killed++
  }
}

async function killIfMarked(pid: string, mark: string): Promise<boolean> {
  try {
    // The environment of a process that has ended is empty.
    if (!(await readFile(`/proc/${pid}/environ`)).includes(mark)) return false
    return process.kill(Number(pid), 'SIGKILL')
  } catch (fault) {
    // It has ended in the meantime, or runs as another user.
    if (fault instanceof Error && 'code' in fault) return false
    throw fault
  }
}
