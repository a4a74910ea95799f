import { appendFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { SignedEnvelope } from '@svc/plugin-audit/log'
import { followLog } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import { temporaryDir } from '../../../../../support/temporary-dir.js'
import { DAY, envelope } from '../../writer/records.js'

const line = (tool: string, day = DAY): string =>
  `${JSON.stringify({ ...envelope({ tool, ts: `${day}T10:00:00.000Z` }), sig: 'ed25519:AA==' })}\n`

describe('followLog', () => {
  const dir = temporaryDir()
  const file = (day = DAY): string => join(dir.path, `audit-${day}.ndjson`)

  /** Reads to the end, doing one of `steps` each time it has read all there is. */
  async function toolsOf(filter: { tool?: string }, ...steps: (() => void)[]): Promise<string[]> {
    const tools: string[] = []
    const more = async (): Promise<boolean> => {
      const step = steps.shift()
      step?.()
      return step !== undefined
    }
    for await (const record of followLog(dir.path, filter, { more }))
      tools.push((record as SignedEnvelope).tool)
    return tools
  }

  it('yields existing and then appended records, once each', async () => {
    writeFileSync(file(), line('a@1'))
    const tools = await toolsOf(
      {},
      () => appendFileSync(file(), line('b@1')),
      () => undefined,
      () => appendFileSync(file(), line('c@1') + line('d@1')),
    )
    expect(tools).to.deep.equal(['a@1', 'b@1', 'c@1', 'd@1'])
  })

  it('waits for the end of a line that is being written', async () => {
    const whole = line('a@1')
    writeFileSync(file(), whole.slice(0, 20))
    expect(await toolsOf({}, () => appendFileSync(file(), whole.slice(20)))).to.deep.equal(['a@1'])
  })

  it('continues with the file of the next day', async () => {
    writeFileSync(file(), line('a@1'))
    const next = '2026-11-22'
    expect(await toolsOf({}, () => writeFileSync(file(next), line('b@1', next)))).to.deep.equal([
      'a@1',
      'b@1',
    ])
  })

  it('skips records that the filter excludes', async () => {
    writeFileSync(file(), line('a@1'))
    expect(await toolsOf({ tool: 'b' }, () => appendFileSync(file(), line('b@1')))).to.deep.equal(['b@1'])
  })

  it('reports the line number of a line that is not a record', async () => {
    writeFileSync(file(), line('a@1'))
    const bad: number[] = []
    const steps = [() => appendFileSync(file(), 'garbage\n')]
    const more = async (): Promise<boolean> => {
      const step = steps.shift()
      step?.()
      return step !== undefined
    }
    const options = { more, onBadLine: ({ line }: { line: number }) => void bad.push(line) }
    for await (const record of followLog(dir.path, {}, options)) expect(record.tool).to.equal('a@1')
    expect(bad).to.deep.equal([2])
  })
})
