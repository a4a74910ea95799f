import { SummaryTally } from '@svc/plugin-audit/internal/log/format/evidence-summary'
import { checkEvidence, evidenceOf } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import { LogBuilder, signerOf } from '../../../../support/audit-log.js'
import { temporaryDir } from '../../../../support/temporary-dir.js'

const DAY = '2026-11-21'
const POLICY = 'a'.repeat(64)
const { publicKey, keyId, verify } = signerOf(7)
const key = { keyId, publicKey, verify: verify.bind(signerOf(7)) }
const deny = { decision: 'deny', retention: 'standard' }

describe('the summary of an evidence file', () => {
  const dir = temporaryDir()

  async function judged(changePage = (page: string) => page) {
    const log = new LogBuilder(dir.path)
    const gateway = 'gw@1.2.0'
    const own = { gateway, policy_sha256: POLICY, principal: { user: 'ann' } }
    log.record(DAY, { ...own, ts: `${DAY}T08:00:00.000Z` })
    log.record(DAY, { ...own, status: 'error', error: 'UPSTREAM_UNREACHABLE' })
    log.record(DAY, { ...own, principal: { client_id: 'robot' }, status: 'error', error: 'OUTCOME_UNKNOWN' })
    const refused = { ...own, principal: undefined, agentRef: 'run-7', tool: 'delete@2', policy: deny }
    log.record(DAY, { ...refused, status: 'error', error: 'TOOL_NOT_ALLOWED' })
    const event = { ...own, server: gateway, escalation_id: 'e1', status: 'ok' }
    log.record(DAY, { ...event, tool: 'escalations/vote@1', principal: { user: 'bob' } })
    log.record(DAY, {
      ...event,
      tool: 'escalations/vote@1',
      principal: undefined,
      event: { reviewer: 'the admin token' },
      policy: deny,
    })
    log.record(DAY, { ...event, tool: 'escalations/decide@1', principal: undefined, policy: deny })
    log.record(DAY, { tenant: 'other', seq: 'aaaaaaaaaaaaaaaa:7' })
    log.record(DAY, {
      ...own,
      ts: `${DAY}T18:00:00.000Z`,
      seq: 'aaaaaaaaaaaaaaaa:12',
      lost: [[9, 11]],
    })
    log.seal()
    log.finish()
    const page = await evidenceOf([dir.path], { tenant: 'acme' }, { madeBy: 'a test' })
    return checkEvidence(Buffer.from(changePage(page)), [key])
  }

  it('counts persons, decisions, approvals, versions and gaps of what is proven', async () => {
    const { valid, summary } = await judged()
    expect(valid).to.equal(true)
    expect(summary).to.deep.equal({
      records: 8,
      from: `${DAY}T08:00:00.000Z`,
      to: `${DAY}T18:00:00.000Z`,
      persons: [
        ['ann', 3],
        ['robot', 1],
        ['run-7', 1],
      ],
      decisions: [
        ['allowed', 2],
        ['allowed, and failed', 1],
        ['allowed, the outcome is unknown', 1],
        ['denied: TOOL_NOT_ALLOWED', 1],
      ],
      approvals: [
        ['escalations/decide@1: deny', 1],
        ['escalations/vote@1: allow by bob', 1],
        ['escalations/vote@1: deny by the admin token', 1],
      ],
      versions: [
        ['gateway gw@1.2.0', 8],
        [`policy ${POLICY}`, 8],
        ['tool files@1.0.0/read@1.0.0', 4],
        ['tool files@1.0.0/delete@2', 1],
      ],
      gaps: [
        ['lost, as a record after them states', 3],
        ['not in this file, with numbers between those that are', 2],
      ],
      witnesses: [],
    })
  })

  it('leaves out a record that is not proven', async () => {
    const { valid, summary, records } = await judged((page) => {
      const extra = page.indexOf('extra ')
      return page.slice(0, extra + 6) + page.slice(extra + 6).replace(/^.{8}/, 'AAAAAAAA')
    })
    expect([valid, records, summary.records]).to.deep.equal([false, 8, 7])
    expect(summary.from).to.equal(`${DAY}T10:00:00.000Z`)
  })

  it('names the witnesses whose cosignature counts, once for each record', () => {
    const tally = new SummaryTally()
    tally.add({ ts: `${DAY}T08:00:00.000Z` }, ['w.example', 'w.example'])
    tally.add({ ts: `${DAY}T09:00:00.000Z` }, ['w.example'])
    expect(tally.summary().witnesses).to.deep.equal([['w.example', 2]])
    expect(tally.summary().persons).to.deep.equal([['anonymous', 2]])
  })
})
