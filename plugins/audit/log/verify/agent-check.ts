// Compares the files of agents with the daily logs, from which they are derived: each holds the lines of one agent
// run, in their order, up to a point.

import { createHash, type Hash } from 'node:crypto'
import { existsSync, lstatSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { linesOf } from '../files/lines.js'
import { agentLog, dailyLog } from '../format/paths.js'
import { objectIn } from '../format/stored-record.js'
import type { Findings } from './findings.js'

interface Expected {
  lines: number
  readonly digest: Hash
}

export async function checkAgents(
  dir: string,
  { days, findings }: { readonly days: readonly string[]; readonly findings: Findings },
): Promise<void> {
  for (const day of days) {
    const expected = await expectedOf(dir, day)
    const present = agentFiles(dir, day)
    for (const file of new Set([...expected.keys(), ...present])) {
      const lines = expected.get(file)
      const at = present.includes(file) ? await firstDifference(dir, file, lines) : 1
      if (at === undefined) continue
      const message = `from this line on it is not what the records of ${dailyLog(day)} lead to`
      findings.fail({ file, line: at, kind: 'agent_file', message })
    }
  }
}

/** A digest over the lines of each agent run of the day, by its file. */
async function expectedOf(dir: string, day: string): Promise<Map<string, Expected>> {
  const expected = new Map<string, Expected>()
  for await (const { bytes, complete } of linesOf(join(dir, dailyLog(day)))) {
    if (!complete) break
    const file = fileOf(bytes, day)
    if (file === undefined) continue
    const own = expected.get(file) ?? { lines: 0, digest: createHash('sha256') }
    own.lines++
    own.digest.update(bytes).update('\n')
    expected.set(file, own)
  }
  return expected
}

function fileOf(line: Uint8Array, day: string): string | undefined {
  const { nodeId, agentRef } = objectIn(line) ?? {}
  if (typeof nodeId !== 'string' || typeof agentRef !== 'string') return undefined
  return agentLog(nodeId, day, agentRef)
}

/** The first line of the file that differs; undefined where none does. */
async function firstDifference(
  dir: string,
  file: string,
  expected: Expected | undefined,
): Promise<number | undefined> {
  const digest = createHash('sha256')
  let lines = 0
  for await (const { bytes, complete } of linesOf(join(dir, file))) {
    if (!complete) break
    lines++
    digest.update(bytes).update('\n')
  }
  if (expected === undefined) return lines === 0 ? undefined : 1
  const isEqual = lines === expected.lines && digest.digest('hex') === expected.digest.copy().digest('hex')
  if (isEqual) return undefined
  return differingLine(dir, file)
}

async function differingLine(dir: string, file: string): Promise<number> {
  const day = file.split('/')[2] ?? ''
  const own = linesOf(join(dir, file))
  let line = 0
  for await (const { bytes } of linesOf(join(dir, dailyLog(day)))) {
    if (fileOf(bytes, day) !== file) continue
    const daily = Buffer.from(bytes)
    line++
    const next = await own.next()
    if (next.done || !next.value.bytes.equals(daily)) {
      await own.return()
      return line
    }
  }
  await own.return()
  return line + 1
}

function agentFiles(dir: string, day: string): string[] {
  const folder = join(dir, 'agents')
  if (!existsSync(folder)) return []
  return readdirSync(folder).flatMap((node) => {
    const ofDay = join(folder, node, day)
    if (!existsSync(ofDay)) return []
    const names = readdirSync(ofDay).filter((name) => name.endsWith('.ndjson'))
    return names
      .filter((name) => lstatSync(join(ofDay, name)).isFile())
      .map((name) => `agents/${node}/${day}/${name}`)
  })
}
