// Compares the files of agents with the daily logs, from which they are derived: each holds the lines of one agent
// run, in their order, up to a point.

import { createHash, type Hash } from 'node:crypto'
import { existsSync, readdirSync } from 'node:fs'
import { join, relative } from 'node:path'
import { agentLog } from '../../files/daily-files.js'
import { linesOf } from '../../files/lines.js'
import { dailyLog } from '../../format/paths.js'
import { objectIn } from '../../format/stored-record.js'
import type { Context } from './inventory.js'

/** Files of days whose removal is stated may be missing. */
export async function checkAgents({ dir, sizes: days, facts, findings }: Context): Promise<void> {
  const present = agentFiles(dir)
  for (const day of new Set([...days.keys(), ...present.keys()])) {
    const files = present.get(day) ?? new Set()
    const expected = days.has(day) ? await expectedOf(dir, day) : new Map<string, Hash>()
    for (const file of new Set([...(facts?.removals.has(day) ? [] : expected.keys()), ...files])) {
      const isSame =
        files.has(file) && digestOf(expected.get(file)) === digestOf(await hashOf(join(dir, file)))
      if (isSame) continue
      const line = files.has(file) && expected.has(file) ? await firstDifference(dir, day, file) : 1
      const message = days.has(day)
        ? `from this line on it is not what the records of ${dailyLog(day)} lead to`
        : `there is no ${dailyLog(day)} that shows its records`
      findings.fail(file, line, 'agent_file', message)
    }
  }
}

/** The hash of the lines of each agent run of the day, by its file. */
async function expectedOf(dir: string, day: string): Promise<Map<string, Hash>> {
  const expected = new Map<string, Hash>()
  for await (const { bytes, complete } of linesOf(join(dir, dailyLog(day)))) {
    const file = complete ? fileOf(bytes, day) : undefined
    if (file === undefined) continue
    const own = expected.get(file) ?? createHash('sha256')
    expected.set(file, own.update(bytes).update('\n'))
  }
  return expected
}

/** The hash of the whole lines of a file. */
async function hashOf(path: string): Promise<Hash> {
  const hash = createHash('sha256')
  for await (const { bytes, complete } of linesOf(path)) if (complete) hash.update(bytes).update('\n')
  return hash
}

function digestOf(hash = createHash('sha256')): string {
  return hash.digest('hex')
}

function fileOf(line: Uint8Array, day: string): string | undefined {
  const { nodeId, agentRef } = objectIn(line) ?? {}
  if (typeof nodeId !== 'string' || typeof agentRef !== 'string') return undefined
  return agentLog(nodeId, day, agentRef)
}

async function firstDifference(dir: string, day: string, file: string): Promise<number> {
  const own = linesOf(join(dir, file))
  let line = 1
  for await (const { bytes } of linesOf(join(dir, dailyLog(day)))) {
    if (fileOf(bytes, day) !== file) continue
    const next = await own.next()
    if (next.done || !next.value.bytes.equals(bytes)) break
    line++
  }
  await own.return()
  return line
}

/** The files by the name of their day's folder. */
function agentFiles(dir: string): Map<string, Set<string>> {
  const found = new Map<string, Set<string>>()
  const agents = join(dir, 'agents')
  const entries = existsSync(agents) ? readdirSync(agents, { recursive: true, withFileTypes: true }) : []
  for (const entry of entries) {
    const [, day, ...deeper] = relative(agents, entry.parentPath).split('/')
    if (day === undefined || deeper.length > 0 || !entry.isFile() || !entry.name.endsWith('.ndjson')) continue
    found.set(day, (found.get(day) ?? new Set()).add(relative(dir, join(entry.parentPath, entry.name))))
  }
  return found
}
