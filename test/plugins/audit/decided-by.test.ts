import { decidingPattern, denied, escalation, type Finding, failed, type Outcome, verdict } from '@svc/core'
import { endAt } from '@svc/core/pipeline'
import { decidedBy } from '@svc/plugin-audit/internal/record'
import { expect } from 'chai'
import { controlOf, makeCall } from '../../support/call.js'
import { served } from '../../support/stage-rig.js'

interface Case {
  readonly outcome: Outcome
  readonly finding?: Finding
  readonly pattern?: string
  readonly endedBy?: string
  readonly approval?: string
}

const rule: Finding = { reason: 'rule:a', stage: 'rules', ruling: 'deny' }
const denylist: Finding = { reason: 'tool_in_denylist', stage: 'entitlements' }
const quota = denied('RATE_LIMITED', '', {
  denial: { level: 'user', type: 'quotas', limit: 'mcp://a/b#user:ann' },
})

const cases: readonly (readonly [string, Case, object])[] = [
  [
    'the pattern that allows a call',
    { outcome: served, pattern: 'a/*' },
    { stage: 'entitlements', pattern: 'a/*' },
  ],
  [
    'the approval of a call',
    { outcome: served, pattern: 'a/*', approval: 'esc_1' },
    { stage: 'enforcement', approval: 'esc_1' },
  ],
  [
    'the rule that denies',
    { outcome: denied('TOOL_NOT_ALLOWED', ''), finding: rule, pattern: 'a/*' },
    { stage: 'rules', rule: 'rule:a' },
  ],
  [
    'the pattern that denies',
    { outcome: denied('TOOL_NOT_ALLOWED', ''), finding: denylist, pattern: 'a/b' },
    { stage: 'entitlements', rule: 'tool_in_denylist', pattern: 'a/b' },
  ],
  [
    'the limit that is used up',
    { outcome: quota, pattern: 'a/*', endedBy: 'quotas' },
    { stage: 'quotas', limit: 'mcp://a/b#user:ann' },
  ],
  [
    'the finding that waits for a person',
    {
      outcome: denied('ESCALATION_PENDING', '', { denial: { type: 'rules', reason: 'rule:b' } }),
      approval: 'esc_1',
      endedBy: 'enforcement',
    },
    { stage: 'rules', rule: 'rule:b' },
  ],
  [
    'the stage that refuses',
    { outcome: denied('UNAUTHENTICATED', ''), endedBy: 'authn' },
    { stage: 'authn' },
  ],
  [
    'the stage that fails',
    { outcome: failed('STORE_UNAVAILABLE', ''), endedBy: 'dedupe' },
    { stage: 'dedupe' },
  ],
  ['the gateway, for a call that was stopped', { outcome: denied('DRAINING', '') }, { stage: 'gateway' }],
]

describe('what decided a call', () => {
  for (const [what, { outcome, finding, pattern, endedBy, approval }, expected] of cases) {
    it(`is ${what}`, () => {
      const call = makeCall({ findings: finding === undefined ? [] : [finding] })
      call.set(verdict, { mode: 'enforce', effectOf: () => 'deny' })
      if (pattern !== undefined) call.set(decidingPattern, pattern)
      if (approval !== undefined) call.set(escalation, { id: approval, status: 'pending' })
      if (endedBy !== undefined) controlOf(call)[endAt](endedBy)
      expect(decidedBy(call, outcome, call.judgedFindings())).to.deep.equal(expected)
    })
  }
})
