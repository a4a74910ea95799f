// A custom stage that fails, or ends its process, at a moment that the policy chooses.
import { existsSync, rmSync } from 'node:fs'
import { definePlugin } from '@svc/core'
import { z } from 'zod'

const isOne = process.argv[2] === 'worker 1'

const faults = [
  'none',
  'fails in worker 1',
  'dies in worker 1',
  'dies in worker 1 when it stops',
  'hangs in worker 1',
  'dies',
] as const

export const plugin = definePlugin({
  name: 'faulty',
  version: '1.0.0',
  core: '^1.0.0',
  schema: z.strictObject({
    fault: z.enum(faults),
    /** The fault is there while this file is. */ file: z.string().optional(),
  }),
  create({ fault, file }) {
    const isThere = (): boolean => file !== undefined && existsSync(file)
    const dies = (): boolean => fault === 'dies' && isThere()
    return {
      handle(_call, next) {
        if (isOne && fault === 'hangs in worker 1' && isThere()) {
          rmSync(file ?? '')
          Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
        }
        return next()
      },
      async start() {
        if (isOne && fault === 'fails in worker 1') throw new Error('worker 1 cannot start it')
        if (isOne && fault === 'dies in worker 1') process.kill(process.pid, 'SIGKILL')
        if (dies()) process.exit(3)
      },
      async stop() {
        if (isOne && fault === 'dies in worker 1 when it stops') process.kill(process.pid, 'SIGKILL')
      },
    }
  },
})
