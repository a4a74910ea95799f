// Processes that append to one directory until they are asked to close, or killed.

import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import type { AppenderConfig, AppenderLimits } from '@svc/plugin-audit/log'
import { endWithRunner } from '../../../../support/child-lifetime.js'
import { DAY } from './records.js'

/** Appends, eight at once, printing each span when it is acknowledged; closes when its input ends. */
const program = `
  import { once } from 'node:events'
  import { writeSync } from 'node:fs'
  import { LocalDevSigner, SvcAppender } from '@svc/plugin-audit/log'
  const { name, total, days, config, limits } = JSON.parse(process.argv[1])
  const signer = LocalDevSigner.fromSeed(new Uint8Array(32).fill(7))
  const appender = new SvcAppender({ config, limits, signer })
  let next = 0
  const work = async () => {
    while (next < total) {
      const day = days[Math.floor(next * days.length / total)]
      const span_id = name + (next++)
      await appender.append({
        ts: day + 'T10:00:00Z', trace_id: 'aa', span_id, tenant: 'acme', server: 's@1', tool: 't@1', status: 'ok',
        latency_ms: 1, policy: { decision: 'allow', retention: 'standard' }, nodeId: 'n', agentRef: 'r' + (next % 3),
      })
      writeSync(1, span_id + '\\n')
    }
  }
  await Promise.all(Array.from({ length: 8 }, work))
  await once(process.stdin.resume(), 'end')
  await appender.close()`

export interface WriterOptions {
  /** The start of its spans, hexadecimal. */
  readonly name: string
  readonly total: number
  /** The records' days, in equal shares one after the other. */
  readonly days?: readonly string[]
  readonly config?: Partial<AppenderConfig>
  readonly limits?: Partial<AppenderLimits>
  /** Called with the number of records acknowledged so far. */
  readonly onAcknowledged?: (count: number) => void
}

export interface Writer {
  readonly child: ChildProcessByStdio<Writable, Readable, null>
  readonly acknowledged: string[]
  /** Resolves when all its records are acknowledged, or it is dead. */
  readonly written: Promise<void>
  /** Resolves when the process has ended and its output was read. */
  readonly ended: Promise<unknown>
  /** Closes the log once its records are acknowledged. Resolves to its exit code, null if it was killed. */
  close(): Promise<number | null>
}

export function startWriter(dir: string, options: WriterOptions): Writer {
  const { name, total, days = [DAY], config, limits, onAcknowledged = () => undefined } = options
  const told = { name, total, days, limits, config: { dir, retentionDays: 9999, ...config } }
  const child = endWithRunner(
    spawn(process.execPath, ['--input-type=module', '-e', program, JSON.stringify(told)], {
      cwd: new URL('.', import.meta.url),
      stdio: ['pipe', 'pipe', 'inherit'],
    }),
  )
  const acknowledged: string[] = []
  const lines = createInterface({ input: child.stdout })
  const written = new Promise<void>((resolve) => {
    lines.once('close', resolve)
    lines.on('line', (line) => {
      acknowledged.push(line)
      onAcknowledged(acknowledged.length)
      if (acknowledged.length === total) resolve()
    })
  })
  const ended = Promise.all([once(child, 'exit'), once(lines, 'close')])
  return {
    child,
    acknowledged,
    written,
    ended,
    async close() {
      child.stdin.end()
      await ended
      return child.exitCode
    },
  }
}
