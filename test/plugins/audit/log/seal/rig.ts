// What the tests of sealing share.

import type { SvcAppender } from '@svc/plugin-audit/log'
import { DAY, envelope } from '../writer/records.js'

export async function append(appender: SvcAppender, count: number, day = DAY): Promise<void> {
  const record = () => envelope({ ts: `${day}T10:00:00Z` })
  await Promise.all(Array.from({ length: count }, () => appender.append(record())))
}
