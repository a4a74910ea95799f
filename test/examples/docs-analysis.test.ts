// Runs the statements of docs/analysis.md unchanged on a log.
import { appendFileSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api'
import { expect } from 'chai'
import { appenderIn, DAY, envelope } from '../plugins/audit/log/writer/records.js'
import { temporaryDir } from '../support/temporary-dir.js'

const page = readFileSync(new URL('../../../docs/analysis.md', import.meta.url), 'utf8')
const recipes = new Map(
  page
    .split(/^## /m)
    .slice(1)
    .map((section) => [
      section.split('\n')[0] ?? '',
      [...section.matchAll(/```sql\n(.*?)```/gs)].map(([, statement = '']) => statement),
    ]),
)

describe('the recipes of docs/analysis.md', function () {
  this.timeout(30_000)
  const dir = temporaryDir()
  let instance: DuckDBInstance
  let connection: DuckDBConnection

  beforeEach(async () => {
    const log = join(dir.path, 'audit')
    const appender = appenderIn(log)
    const deny = { decision: 'deny', retention: 'standard' } as const
    const finding = (reason: string, effect: 'deny' | 'reported') => ({ reason, effect, stage: 'security' })
    const records = [
      { trace_id: 'e1', span_id: 'a', tool: 'plan@1', principal: { user: 'ann', roles: [] } },
      {
        trace_id: 'e1',
        span_id: 'b',
        ts: `${DAY}T11:00:01Z`,
        cause_trace_id: 'e1',
        cause_span_id: 'a',
        policy: deny,
        status: 'error' as const,
        error: 'TOOL_NOT_ALLOWED',
        findings: [finding('egress_violation', 'deny'), finding('version_unpinned', 'reported')],
      },
      { policy: deny, status: 'error' as const, error: 'QUOTA_EXCEEDED', tenant: 'globex' },
      { policy: deny, status: 'error' as const, error: 'QUOTA_EXCEEDED' },
    ]
    for (const record of records) await appender.append(envelope(record))
    await appender.close()
    // A writer that is killed leaves such a line.
    appendFileSync(join(log, `audit-${DAY}.ndjson`), '{"agentRef":nu')
    instance = await DuckDBInstance.create(':memory:')
    connection = await instance.connect()
    // Relative paths start from the directory of the process, which other tests share.
    for (const statement of recipes.get('The records as a table') ?? []) await run(statement)
  })
  afterEach(() => {
    connection.closeSync()
    instance.closeSync()
  })

  async function run(statement: string): Promise<unknown[][]> {
    const located = statement
      .replaceAll("'audit/", `'${join(dir.path, 'audit')}/`)
      .replaceAll("'records.parquet'", `'${join(dir.path, 'records.parquet')}'`)
    const reader = await connection.runAndReadAll(located)
    return reader.getRowsJson()
  }
  const only = (title: string) => run(recipes.get(title)?.[0] ?? '')

  it('all have a test', () => {
    expect([...recipes.keys()]).to.deep.equal([
      'The records as a table',
      'Denials by reason',
      'Callers and tools',
      'Hours',
      'One trace',
      'Parquet',
    ])
  })

  it('count denials by reason', async () => {
    expect(await only('Denials by reason')).to.deep.equal([
      ['QUOTA_EXCEEDED', '2', '2'],
      ['egress_violation', '1', '1'],
    ])
  })

  it('show callers and tools', async () => {
    const rows = await only('Callers and tools')
    expect(rows.map(([caller, tool, calls, denied]) => [caller, tool, calls, denied])).to.deep.equal([
      ['unknown', 'read@1.0.0', '3', '3'],
      ['ann', 'plan@1', '1', '0'],
    ])
  })

  it('show calls and denials by hour', async () => {
    const rows = await only('Hours')
    expect(rows.map(([, calls, denied]) => [calls, denied])).to.deep.equal([
      ['3', '2'],
      ['1', '1'],
    ])
  })

  it('show one trace from end to end', async () => {
    const rows = await only('One trace')
    expect(rows.map(([call, decision]) => [call, decision])).to.deep.equal([
      ['files@1.0.0/plan@1', 'allow'],
      ['  files@1.0.0/read@1.0.0', 'deny'],
    ])
  })

  it('write and read Parquet', async () => {
    const [copy = '', query = ''] = recipes.get('Parquet') ?? []
    await run(copy)
    expect(await run(query)).to.deep.equal([[DAY, '4']])
  })
})
