import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { auditCommand } from 'svc-sdk/internal/cli/audit'
import { appenderIn, DAY, envelope } from '../../plugins/audit/log/writer/records.js'
import { type Run, runCommand } from '../../support/command.js'
import { temporaryDir } from '../../support/temporary-dir.js'

export const audit = (...args: string[]): Promise<Run> => runCommand(auditCommand, args)
/** The file of the day. */
export const file = `audit-${DAY}.ndjson`

/** Three records in a log of its own for each test of the calling suite. */
export function threeRecords() {
  const dir = temporaryDir()

  beforeEach(async () => {
    const appender = appenderIn(dir.path)
    const deny = { decision: 'deny', retention: 'standard' } as const
    await appender.append(envelope({ trace_id: 'aa' }))
    await appender.append(
      envelope({ trace_id: 'bb', policy: deny, status: 'error', error: 'TOOL_NOT_ALLOWED' }),
    )
    await appender.append(envelope({ trace_id: 'cc', tool: 'esc\u001b[31m@1' }))
    await appender.close()
  })

  function tamper(): void {
    const path = join(dir.path, file)
    const lines = readFileSync(path, 'utf8').split('\n')
    writeFileSync(path, lines.map((line, i) => (i === 1 ? line.replace('acme', 'acmf') : line)).join('\n'))
  }

  return { dir, tamper }
}
