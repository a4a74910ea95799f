import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { verifierFromPublicKey } from '@svc/plugin-audit/log'
import { verifyLog } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import { LogBuilder, signerOf } from '../../../../../support/audit-log.js'

const keys = [verifierFromPublicKey(signerOf(7).publicKey)]
const MINUTE_MS = 60_000

describe('verifyLog on records that are not sealed', () => {
  let dir = ''
  let log: LogBuilder

  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'svc-unsealed-'))
    log = new LogBuilder(dir)
  })

  afterEach(() => rmSync(dir, { recursive: true, force: true }))

  /** Records of a number of minutes ago, each in the file of its day. */
  function record(...ages: number[]): string[] {
    return ages.map((minutes) => {
      const ts = new Date(Date.now() - minutes * MINUTE_MS).toISOString()
      log.record(ts.slice(0, 10), { ts })
      return ts
    })
  }

  const verify = (maxUnsealedMs?: number, fast = false) =>
    verifyLog(dir, { keys, fast, ...(maxUnsealedMs === undefined ? {} : { maxUnsealedMs }) })

  it('says of what time the first of them is', async () => {
    record(9_000, 20)
    log.seal()
    log.finish()
    expect(await verify()).to.not.have.property('oldestUnsealed')
    const [, oldest] = [record(1), ...record(3_000), record(2)]
    expect(await verify()).to.deep.include({ verdict: 'intact', unsealed: 3, oldestUnsealed: oldest })
  })

  for (const fast of [false, true]) {
    it(`fails if one is older than is allowed${fast ? ', with fast' : ''}`, async () => {
      record(30)
      log.seal()
      log.finish()
      const [ts = ''] = record(10, 1)
      expect(await verify(11 * MINUTE_MS, fast)).to.deep.include({ verdict: 'intact', failures: [] })
      const { verdict, failures } = await verify(9 * MINUTE_MS, fast)
      expect(verdict).to.equal('not_intact')
      expect(failures.map(({ kind }) => kind)).to.deep.equal(['not_sealed'])
      expect(failures[0]?.message).to.include(ts)
    })
  }

  it('fails if the first one states no time, and a limit is given', async () => {
    record(1)
    log.seal()
    log.finish()
    log.append([...log.days.keys()][0] ?? '', '{}')
    const kinds = async (maxUnsealedMs?: number) =>
      (await verify(maxUnsealedMs, true)).failures.map(({ kind }) => kind)
    expect([await kinds(), await kinds(MINUTE_MS)]).to.deep.equal([[], ['not_sealed']])
  })

  it('has no limit for sealed ones', async () => {
    record(9_000)
    log.seal()
    log.finish()
    expect(await verify(0)).to.deep.include({ verdict: 'intact', failures: [] })
  })
})
