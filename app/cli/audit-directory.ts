// `svc audit resume` and `svc audit fork`: a directory that was copied or cannot be continued.

import { forkLog, resumeLog } from '@svc/plugin-audit/log'
import type { CliIo } from './io.js'

export async function resume(dir: string, io: CliIo): Promise<void> {
  const logId = resumeLog(dir)
  await io.out(`log ${logId} goes on in ${dir}; no copy of it may be continued elsewhere\n`)
}

export async function fork(dir: string, io: CliIo): Promise<void> {
  const { folder, parent } = forkLog(dir)
  await io.out(
    `${dir}/${folder} holds ${parent.origin} with ${parent.size} leaves; the next writer begins a log that names it\n`,
  )
}
