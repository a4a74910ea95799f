// People decide about calls of tools, prompts and resources. No other request opens an escalation, whatever is found.
import type { Finding } from '@svc/core'
import { expect } from 'chai'
import { Chance } from '../../../support/chance.js'
import { propertyRuns } from '../../../support/property-runs.js'
import { startRig, summaryOf } from './rig.js'

const messages = [
  ...['initialize', 'ping', 'tools/list', 'prompts/list', 'resources/templates/list', 'logging/setLevel'],
  ...['notifications/initialized', 'notifications/cancelled', 'server/discover', 'tasks/get'],
].map((method) => ({ kind: 'protocol', method, name: method, args: {} }) as const)

const streams = ['GET', 'DELETE'].map((name) => ({ kind: 'protocol', method: null, name, args: {} }) as const)

const response = { kind: 'protocol', method: null, name: 'response', args: { result: { url: 'x' } } } as const

const calls = [
  { kind: 'tool', method: 'tools/call', name: 'echo', args: {} },
  { kind: 'prompt', method: 'prompts/get', name: 'p', args: {} },
  { kind: 'resource', method: 'resources/read', name: 'file:///x', args: {} },
] as const

const reasons = [
  'tool_not_in_allowlist',
  'tool_in_denylist',
  'egress_violation',
  'payload_too_large',
  'own_reason',
]
const SEED = Number(process.env['SVC_SEED'] ?? 24)

describe('a finding that escalates', () => {
  it(`opens an escalation for calls alone (SVC_SEED=${SEED})`, async () => {
    const chance = new Chance(SEED)
    const some = () => reasons.filter(() => chance.next() < 0.4)
    for (let run = 0; run < propertyRuns(60); run++) {
      const escalateOn = [...some(), chance.pick<string>(['egress_violation', 'tool_not_in_allowlist'])]
      const denyOn = chance.pick<readonly string[] | undefined>([undefined, [], some()])
      const mode = chance.pick(['enforce', 'enforce', 'observe'])
      const found = new Set([...some(), chance.pick(['egress_violation', 'own_reason'])])
      const findings = [...found].map((reason): Finding => ({ reason, stage: 'security' }))
      const section = { mode, escalate_on: escalateOn, ...(denyOn === undefined ? {} : { deny_on: denyOn }) }
      const escalates = findings.some(({ reason }) => escalateOn.includes(reason))
      const denies = findings.some(
        ({ reason }) =>
          !escalateOn.includes(reason) &&
          (denyOn === undefined ||
            denyOn.includes(reason) ||
            (reason === 'tool_in_denylist' && denyOn.includes('tool_not_in_allowlist'))),
      )
      await using rig = await startRig({ section })
      const codeOf = async (
        request: (typeof messages)[number] | typeof response | (typeof calls)[number],
      ) => {
        const call = rig.make({ protocol: 'mcp', request, findings })
        const { code } = summaryOf(await rig.through(call))
        const effects = call.judgedFindings().map(({ effect }) => effect)
        return { code: code === 'sent' ? 'sent' : code === 'ESCALATION_PENDING' ? 'held' : 'denied', effects }
      }
      const told = JSON.stringify({ section, found: [...found] })
      const isObserved = mode === 'observe'
      for (const request of [...messages, ...streams]) {
        const { code, effects } = await codeOf(request as (typeof messages)[number])
        expect(code, `${request.name} ${told}`).to.equal(denies && !isObserved ? 'denied' : 'sent')
        expect(effects, told).to.not.include('escalate')
      }
      const { code } = await codeOf(response)
      expect(code, `response ${told}`).to.equal((denies || escalates) && !isObserved ? 'denied' : 'sent')
      expect(rig.events, told).to.deep.equal([])
      for (const request of calls) {
        const { code } = await codeOf(request)
        const expected = isObserved ? 'sent' : denies ? 'denied' : escalates ? 'held' : 'sent'
        expect(code, `${request.name} ${told}`).to.equal(expected)
      }
    }
  })
})
