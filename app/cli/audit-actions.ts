// `svc audit stats`.

import { type LogFilter, logStats } from '@svc/plugin-audit/log'
import { badLines } from './audit-show.js'
import { statsReport } from './audit-stats.js'
import type { CliIo } from './io.js'

export async function stats(dir: string, options: LogFilter & { json?: boolean }, io: CliIo): Promise<void> {
  const { json, ...filter } = options
  const metrics = await logStats(dir, filter, badLines(io))
  await io.out(json ? `${JSON.stringify(metrics, null, 2)}\n` : statsReport(metrics))
}
