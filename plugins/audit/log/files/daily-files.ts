// The files of a day: the daily logs of a directory, oldest first, and the files of agents.

import { readdir } from 'node:fs/promises'
import { pathSegment, reasonOf } from '@svc/core/json'
import { AuditError } from '../format/errors.js'
import { dayOfDailyLog } from '../format/paths.js'

export interface DailyFile {
  readonly name: string
  /** `YYYY-MM-DD`. */
  readonly day: string
}

/** @throws {AuditError} `read_failed` when the directory cannot be listed. */
export async function dailyFiles(dir: string): Promise<DailyFile[]> {
  let names: string[]
  try {
    names = await readdir(dir)
  } catch (cause) {
    throw new AuditError('read_failed', `cannot read the log at ${dir}: ${reasonOf(cause)}`, cause)
  }
  return names.sort().flatMap((name) => {
    const day = dayOfDailyLog(name)
    return day === undefined ? [] : [{ name, day }]
  })
}

export function agentLog(nodeId: string, day: string, agentRef: string): string {
  return `agents/${pathSegment(nodeId)}/${day}/${pathSegment(agentRef)}.ndjson`
}
