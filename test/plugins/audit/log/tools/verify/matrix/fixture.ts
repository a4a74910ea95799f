// The log on which the manipulations are made: five days, of which retention removed the first; keys that entered,
// retired and were revoked; two writer sessions; a late record; an unsealed end.

import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { publicKeyLine } from '@svc/plugin-audit/internal/log/format/verifier'
import { LogBuilder, signerOf } from '../../../../../../support/audit-log.js'

export const REMOVED = '2026-11-15'
export const EARLY = '2026-11-19'
export const PAST = '2026-11-20'
export const TODAY = '2026-11-21'
const RETENTION_DAYS = 2
export const [first, second, third, stranger] = [7, 8, 9, 99].map(signerOf) as [
  ReturnType<typeof signerOf>,
  ReturnType<typeof signerOf>,
  ReturnType<typeof signerOf>,
  ReturnType<typeof signerOf>,
]
export const trusted = [first].map(({ publicKey }) => publicKey)
export const allKeys = [first, second, third].map(({ publicKey }) => publicKey)

const OTHER_SESSION = 'bbbbbbbbbbbbbbbb'

export interface BuildOptions {
  readonly logId?: string
  /** Called before the last seal. */
  readonly before?: (log: LogBuilder) => void
  /** Replaces the steps after the last seal. */
  readonly after?: (log: LogBuilder) => void
}

/** The log as its writer leaves it. */
export function buildLog(dir: string, options: BuildOptions = {}): LogBuilder {
  mkdirSync(dir, { recursive: true })
  const log = new LogBuilder(dir, {
    retentionDays: RETENTION_DAYS,
    at: `${REMOVED}T10:00:00.000Z`,
    ...(options.logId === undefined ? {} : { logId: options.logId }),
  })
  const some = (day: string, count: number, changes = {}) => {
    for (let i = 0; i < count; i++) log.record(day, changes)
  }
  some(REMOVED, 5)
  log.seal()
  log.at = `${EARLY}T10:00:00.000Z`
  some(EARLY, 6)
  log.seal()
  log.remove(REMOVED)
  log.journal({ kind: 'key', key: publicKeyLine(second.publicKey) })
  log.checkpointSigners = [first, second]
  some(EARLY, 4, { session: OTHER_SESSION })
  log.seal()
  log.at = `${PAST}T10:00:00.000Z`
  log.signer = second
  log.journal({ kind: 'key', retired: first.keyId, until: log.size + 1 })
  log.checkpointSigners = [second]
  some(PAST, 7)
  log.seal()
  log.journal({ kind: 'key', key: publicKeyLine(third.publicKey) })
  some(PAST, 5)
  // Number 12 of the session was never written, as the record after it states.
  log.record(PAST, { seq: 'aaaaaaaaaaaaaaaa:13', lost: [[12, 12]] })
  log.seal()
  log.journal({ kind: 'revoke', revoked: third.keyId, until: log.size })
  log.checkpoint()
  log.at = `${TODAY}T10:00:00.000Z`
  some(TODAY, 9)
  log.record(PAST, { session: OTHER_SESSION })
  log.seal()
  some(TODAY, 3)
  options.before?.(log)
  log.seal()
  if (options.after === undefined) some(TODAY, 2)
  else options.after(log)
  return log.finish()
}

/** The files of one copy of the log. */
export class Files {
  constructor(readonly dir: string) {}

  path(name: string): string {
    return join(this.dir, name)
  }

  text(name: string): string {
    return readFileSync(this.path(name), 'utf8')
  }

  write(name: string, content: string | Uint8Array): void {
    writeFileSync(this.path(name), content)
  }

  edit(name: string, change: (text: string) => string): void {
    const before = this.text(name)
    const after = change(before)
    if (after === before) throw new Error(`nothing changed in ${name}`)
    this.write(name, after)
  }

  /** Changes the list of lines. */
  lines(name: string, change: (lines: string[]) => readonly string[]): void {
    this.edit(name, (text) => {
      const lines = text.split('\n').slice(0, -1)
      return change(lines)
        .map((line) => `${line}\n`)
        .join('')
    })
  }

  line(name: string, number: number): string {
    return this.text(name).split('\n')[number - 1] ?? ''
  }

  /** Changes one line; numbers count from 1. */
  editLine(name: string, number: number, change: (line: string) => string): void {
    this.lines(name, (lines) => lines.with(number - 1, change(lines[number - 1] ?? '')))
  }

  /** Changes the list of checkpoints. */
  notes(day: string, change: (notes: string[]) => readonly string[]): void {
    this.edit(`audit-${day}.checkpoint`, (text) => change(text.split(/(?<=\n)(?=\S*svc-audit)/)).join(''))
  }

  remove(name: string): void {
    rmSync(this.path(name), { recursive: true })
  }
}
