// The `svc` command, run as `npx svc-sdk` would run it.
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'

export const svcProgram = fileURLToPath(new URL('../bin/svc.js', import.meta.resolve('svc-sdk')))

/** Runs it to the end. `output` is its standard output and error. */
export function svc(...args: string[]): Promise<{ exit: number; output: string }> {
  return new Promise((resolve, reject) => {
    execFile(process.execPath, [svcProgram, ...args], (error, stdout, stderr) => {
      const exit = error === null ? 0 : error.code
      if (typeof exit === 'number') resolve({ exit, output: `${stdout}${stderr}`.trim() })
      else reject(error ?? new Error('svc did not run'))
    })
  })
}
