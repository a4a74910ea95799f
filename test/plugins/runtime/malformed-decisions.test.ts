// A decision against a call that can be read never becomes weaker, whatever else is wrong with the response.
import { expect } from 'chai'
import { Chance } from '../../support/chance.js'
import { propertyRuns } from '../../support/property-runs.js'
import { argumentsOf, EvaluatedCalls, failureModes } from './evaluated-calls.js'
import { type RuntimeHandler, respond } from './gateway.js'

const seed = Number(process.env['SVC_SEED'] ?? 21)

interface Message {
  status: number
  decision: Record<string, unknown>
  body: Record<string, unknown>
  /** Changes the written text. */
  rewrite: (text: string) => string | Buffer
}

const malformations: Readonly<Record<string, (message: Message) => void>> = {
  'a reason that is too long': ({ decision }) => (decision['reason'] = 'no '.repeat(1000)),
  'a reason longer than the limit of responses': ({ decision }) => (decision['reason'] = 'x'.repeat(100_000)),
  'a reason that is a number': ({ decision }) => (decision['reason'] = 7),
  'too many reasons': ({ decision }) => (decision['reasons'] = Array(33).fill('r')),
  'an unknown obligation': ({ decision }) => (decision['obligations'] = [{ type: 'sing' }]),
  'an obligation that is text': ({ decision }) => (decision['obligations'] = ['sing']),
  'obligations that are an object': ({ decision }) => (decision['obligations'] = {}),
  'an unsupported redaction': ({ decision }) =>
    (decision['obligations'] = [{ type: 'redact_output', params: { patterns: ['(a+)+$'] } }]),
  'an extra member of the decision': ({ decision }) => (decision['until'] = 'dawn'),
  'an extra member': ({ body }) => (body['verdict'] = 'allow'),
  'metadata that are text': ({ body }) => (body['metadata'] = 'x'),
  'deep metadata': ({ body }) => (body['metadata'] = JSON.parse(`${'{"a":'.repeat(600)}1${'}'.repeat(600)}`)),
  'no protocol version': ({ body }) => delete body['protocolVersion'],
  'another protocol version': ({ body }) => (body['protocolVersion'] = '2027-01-01'),
  'a protocol version that is a number': ({ body }) => (body['protocolVersion'] = 2026),
  'a capital letter in the action': ({ decision }) =>
    (decision['action'] = String(decision['action']).replace(/^./, (letter) => letter.toUpperCase())),
  'the members of the decision at the top': ({ body, decision }) => {
    delete body['decision']
    Object.assign(body, decision)
  },
  'a second action, which allows': (message) =>
    addRewrite(message, (text) => text.replace(/("[Aa]ction":"\w+")/, '$1,"action":"allow"')),
  'a first action, which allows': (message) =>
    addRewrite(message, (text) => text.replace(/("[Aa]ction":)/, '"action":"allow",$1')),
  'escaped letters': (message) =>
    addRewrite(message, (text) =>
      text.replace(
        /"[Aa]ction":"(.)/,
        (all, letter: string) =>
          `${all.slice(0, -1)}\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`,
      ),
    ),
  'a cut end': (message) => addRewrite(message, (text) => text.slice(0, -1)),
  'an invalid byte': (message) => {
    const { rewrite } = message
    message.rewrite = (text) => Buffer.concat([Buffer.from(rewrite(text)), Buffer.from([0xff])])
  },
  'status 201': (message) => (message.status = 201),
  'status 403': (message) => (message.status = 403),
  'status 503': (message) => (message.status = 503),
}

/** Text that another malformation has turned into bytes is left as it is. */
function addRewrite(message: Message, rewrite: (text: string) => string): void {
  const { rewrite: before } = message
  message.rewrite = (text) => {
    const written = before(text)
    return typeof written === 'string' ? rewrite(written) : written
  }
}

/** Sends the decision `action` of the arguments with their `malformations`. */
const malformed: RuntimeHandler = (response, call) => {
  const { action, names } = argumentsOf(call.body) as { action: string; names: string[] }
  const decision: Record<string, unknown> = { action }
  const message: Message = {
    status: 200,
    decision,
    body: { protocolVersion: '2026-02-01', decision },
    rewrite: (text) => text,
  }
  for (const name of names) malformations[name]?.(message)
  response.writeHead(message.status, { 'content-type': 'application/json' })
  response.end(message.rewrite(JSON.stringify(message.body)))
}

const actions = ['deny', 'clarify', 'escalate'] as const
const reasons = { deny: 'runtime_denied', clarify: 'runtime_clarify', escalate: 'runtime_escalated' } as const

describe('a decision of a remote runtime against a call', () => {
  for (const failureMode of failureModes) {
    it(`stands whatever else is wrong with the response, with failureMode ${failureMode}`, async () => {
      await using calls = await new EvaluatedCalls().begin({
        runtime: malformed,
        failureMode,
        remote: { maxRetries: 0 },
      })
      const names = Object.keys(malformations)
      const chance = new Chance(seed)
      const some = () => names.filter(() => chance.next() < 3 / names.length)
      const sets = [...names.map((name) => [name]), ...Array.from({ length: propertyRuns(100) }, some)]
      for (const action of actions) {
        for (const set of sets) {
          const { isSent, refusal, findings } = await calls.call('ada', { action, names: set })
          const told = `SVC_SEED=${seed}, ${action} with ${set.join(', ')}: ${refusal}, ${findings}`
          expect(isSent, told).to.equal(false)
          expect(refusal, told).to.be.oneOf([
            `TOOL_NOT_ALLOWED ${reasons[action]}`,
            'TOOL_NOT_ALLOWED runtime_denied',
          ])
          if (set.length === 1 && action !== 'escalate')
            expect(refusal, told).to.equal(`TOOL_NOT_ALLOWED ${reasons[action]}`)
        }
      }
    })
  }

  it('stays an escalation with a reason that is too long', async () => {
    await using calls = await new EvaluatedCalls().begin({ runtime: malformed, failureMode: 'allow' })
    const denied = await calls.call('ada', { action: 'escalate', names: ['a reason that is too long'] })
    expect(denied.refusal).to.equal('TOOL_NOT_ALLOWED runtime_escalated')
  })
})

const refusals: Readonly<Record<string, { runtime: RuntimeHandler; bytes?: number }>> = {
  'responds 400': { runtime: (response) => respond(response, 400, {}) },
  'responds 403': { runtime: (response) => respond(response, 403, {}) },
  'responds 413': { runtime: (response) => respond(response, 413, {}) },
  'responds 414': { runtime: (response) => respond(response, 414, {}) },
  'responds 422': { runtime: (response) => respond(response, 422, {}) },
  'responds 431': { runtime: (response) => respond(response, 431, {}) },
  'sends more than 64 KiB': {
    runtime: (response) => respond(response, 200, { metadata: 'x'.repeat(100_000) }),
  },
  'closes the connection on a large request': {
    runtime: (response) => response.destroy(),
    bytes: 100_000,
  },
  'responds 500 to a large request': { runtime: (response) => respond(response, 500, {}), bytes: 100_000 },
}

describe('a call whose input the runtime refuses', () => {
  for (const failureMode of failureModes) {
    for (const [how, { runtime, bytes = 0 }] of Object.entries(refusals)) {
      it(`is denied if it ${how}, with failureMode ${failureMode}`, async () => {
        await using calls = await new EvaluatedCalls().begin({
          runtime,
          failureMode,
          remote: { maxRetries: 0 },
        })
        expect(await calls.call('ada', { text: 'x'.repeat(bytes) })).to.deep.include({
          isSent: false,
          refusal: 'TOOL_NOT_ALLOWED runtime_denied',
        })
      })
    }
  }

  it('is decided by failureMode if the runtime refuses the gateway itself', async () => {
    for (const status of [401, 404, 405, 407]) {
      await using calls = await new EvaluatedCalls().begin({
        runtime: (response) => respond(response, status, {}),
        failureMode: 'local',
      })
      expect(await calls.call('ada', {})).to.include({ isSent: true })
    }
  })
})
