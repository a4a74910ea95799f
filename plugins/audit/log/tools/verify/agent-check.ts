// Compares the files of agents with the daily logs, from which they are derived: each holds the lines of one agent
// run, in their order, up to a point.

import { createHash, type Hash } from 'node:crypto'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { linesOf } from '../../files/lines.js'
import { agentLog, dailyLog } from '../../format/paths.js'
import { objectIn } from '../../format/stored-record.js'
import type { Context } from './inventory.js'

interface Expected {
  lines: number
  readonly digest: Hash
}

/** Files of days whose removal is stated may be missing. */
export async function checkAgents({ dir, sizes: days, facts, findings }: Context): Promise<void> {
  const present = agentFiles(dir)
  for (const day of new Set([...days.keys(), ...present.keys()])) {
    const files = present.get(day) ?? []
    const expected = days.has(day) ? await expectedOf(dir, day) : new Map<string, Expected>()
    for (const file of new Set([...(facts?.removals.has(day) ? [] : expected.keys()), ...files])) {
      const at = files.includes(file) ? await firstDifference(dir, file, expected.get(file)) : 1
      if (at === undefined) continue
      const message = days.has(day)
        ? `from this line on it is not what the records of ${dailyLog(day)} lead to`
        : `there is no ${dailyLog(day)} that shows its records`
      findings.fail(file, at, 'agent_file', message)
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

/** The first line of the file that differs; undefined if none does. */
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

/** The files by the name of their day's folder. */
function agentFiles(dir: string): Map<string, string[]> {
  const found = new Map<string, string[]>()
  const agents = join(dir, 'agents')
  for (const node of foldersIn(agents)) {
    for (const day of foldersIn(join(agents, node))) {
      const entries = readdirSync(join(agents, node, day), { withFileTypes: true })
      const names = entries.filter((entry) => entry.isFile() && entry.name.endsWith('.ndjson'))
      const files = names.map(({ name }) => `agents/${node}/${day}/${name}`)
      found.set(day, [...(found.get(day) ?? []), ...files])
    }
  }
  return found
}

function foldersIn(path: string): string[] {
  if (!existsSync(path)) return []
  const entries = readdirSync(path, { withFileTypes: true })
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name)
}
