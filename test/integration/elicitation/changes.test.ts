// What has changed between the question, the vote and the send is not sent: every thing that an approval is of, changed at every
// moment, over every face of a gateway that is a process of its own.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { ask } from '../../app/admin/rig.js'
import { Running } from '../../support/gateway-process.js'
import { ofSuite } from '../../support/parts.js'
import { TemporaryDir } from '../../support/temporary-dir.js'
import { type HandCall, type HandClient, roundAt, startHandClient } from './hand-client.js'
import { adminToken, bothModes, idIn, startBilling, waiting } from './rig.js'

const things = ['nothing', 'argument', 'definition', 'rule', 'block'] as const
const moments = ['before the vote', 'after the vote'] as const
const faces = [
  'handshake /mcp/billing',
  'handshake /mcp',
  'stateless /mcp/billing',
  'stateless /mcp',
  'invoke',
] as const
type Face = (typeof faces)[number]
type Thing = (typeof things)[number]

/** A call that waits. */
interface Waiting {
  readonly id: string
  /** The text of the response, once the call is decided; `amount` is another argument. */
  finish(amount?: number): Promise<string>
}

/** The response of a call that asks at most `asked` times; one that asks once more is left, as it would be held. */
async function answerOf(call: HandCall, asked: number): Promise<string> {
  const isAnswer = () =>
    call.messages.some(({ method }) => method === undefined) ||
    call.messages.filter(({ method }) => method === 'elicitation/create').length > asked
  while (!isAnswer() && (await call.after(call.messages.length)) !== undefined);
  call.leave()
  return JSON.stringify(call.messages.at(-1))
}

describe('a change between the vote and the send', function () {
  this.timeout(120_000)
  let running: Running
  let urls: { readonly url: string; readonly adminUrl: string }
  let amounts = 0

  const file = () => join(folder.path, 'policy.json')
  const write = (message: string) => {
    const { env: _, rules, ...sections } = waiting
    const policy = {
      tenant: 'acme',
      port: 0,
      targets: {
        handshake: `mcp+${billing.urls.handshake}`,
        stateless: `mcp+${billing.urls.stateless}`,
      },
      audit: { gatewayName: 'gw', gatewayVersion: '1.0.0', signer: { keyRef: 'file://key' } },
      quotas: { adapter: 'memory' },
      entitlements: 'open',
      authn: { allowUnauthenticated: true },
      protections: { definitions: { trust: 'first_use' } },
      federation: { list_ttl_ms: 0 },
      ...sections,
      rules: rules.map((rule) => ({ ...rule, message })),
    }
    writeFileSync(file(), JSON.stringify(policy))
  }

  const billing = ofSuite(() => startBilling())
  const folder = ofSuite(() => new TemporaryDir())
  before(async () => {
    generateKeyFile(join(folder.path, 'key'))
    write('First.')
    running = new Running(['--policy', file(), '--dir', join(folder.path, 'state')], {
      SVC_ADMIN: adminToken,
    })
    const { url = '', adminUrl = '' } = await running.line('listening')
    urls = { url, adminUrl }
  })
  after(() => running[Symbol.asyncDispose]())

  const admin = (path: string, body?: object) =>
    ask(urls.adminUrl, path, {
      headers: { authorization: `Bearer ${adminToken}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
    })

  /** Applies the change, and returns what takes it back. */
  async function change(thing: Thing, server: string): Promise<() => Promise<void>> {
    switch (thing) {
      case 'definition':
        billing.describe('Refunds twice.')
        return async () => billing.describe('Refunds.')
      case 'rule':
        write('Second.')
        expect((await admin('/api/policy/reload', {})).status).to.equal(200)
        return async () => {
          write('First.')
          await admin('/api/policy/reload', {})
        }
      case 'block': {
        const block = { kind: 'tool', pattern: `${server}/refund`, for_sec: 60, reason: 'test' }
        const { status, json } = await admin('/api/blocks', block)
        expect(status, JSON.stringify(json)).to.be.oneOf([200, 201])
        const { id } = (json['block'] ?? json) as { id: string }
        return async () => void (await admin(`/api/blocks/${id}/lift`, {}))
      }
      default:
        return async () => undefined
    }
  }

  const handClients = new Map<string, HandClient>()

  async function handshake(path: string): Promise<{ client: HandClient; lists(): Promise<void> }> {
    const client = handClients.get(path) ?? (await startHandClient(`${urls.url}${path}`, {}, bothModes))
    handClients.set(path, client)
    let ids = 10_000
    const lists = async () => {
      const { status } = await client.post({ jsonrpc: '2.0', id: `list-${++ids}`, method: 'tools/list' })
      expect(status).to.equal(200)
    }
    return { client, lists }
  }

  async function begin(
    face: Face,
    moment: string,
    amount: number,
  ): Promise<Waiting & { lists(): Promise<void> }> {
    const [era = '', path = ''] = face.split(' ')
    if (face === 'invoke') {
      const post = (sum: number, headers: Record<string, string> = {}) =>
        ask(urls.url, '/mcp/handshake/refund@1.0.0', {
          method: 'POST',
          headers: { 'content-type': 'application/json', ...headers },
          body: JSON.stringify({ amount: sum }),
        })
      const id = String((await post(amount)).json['escalation_id'])
      return {
        id,
        lists: async () => undefined,
        finish: async (sum = amount) => (await post(sum, { 'x-escalation-id': id })).text,
      }
    }
    const at = path === '/mcp' ? path : `/mcp/${era}`
    const name = path === '/mcp' ? `${era}__refund` : 'refund'
    if (era === 'stateless') {
      const round = roundAt(`${urls.url}${at}`, name)
      const list = roundAt(`${urls.url}${at}`, undefined)
      await list({})
      const first = await round({ arguments: { amount } })
      expect(first.error, JSON.stringify(first.error)).to.equal(undefined)
      const { requestState, inputRequests } = first.result
      return {
        id: idIn(inputRequests.svc.params),
        lists: async () => void (await list({})),
        finish: async (sum = amount) => {
          const back = { requestState, inputResponses: { svc: { action: 'accept' } } }
          return JSON.stringify(await round({ arguments: { amount: sum }, ...back }))
        },
      }
    }
    const { client, lists } = await handshake(at)
    await lists()
    const call = await client.call(name, { amount })
    const { id, params } = await call.request('elicitation/create')
    const again = async (sum: number): Promise<string> => {
      const next = await client.call(name, { amount: sum })
      return answerOf(next, 0)
    }
    if (moment === 'after the vote') {
      await client.post({ jsonrpc: '2.0', id, result: { action: 'decline' } })
      await call.response()
    }
    return {
      id: idIn(params),
      lists,
      finish: async (sum = amount) => (moment === 'after the vote' ? again(sum) : answerOf(call, 1)),
    }
  }

  for (const face of faces) {
    for (const moment of moments) {
      for (const thing of things) {
        // The gateway itself repeats a call that is held, and the invoke protocol has no definitions.
        if (thing === 'argument' && moment === 'before the vote' && face.startsWith('handshake')) continue
        if (thing === 'definition' && face === 'invoke') continue
        it(`${thing === 'nothing' ? 'that is none is sent' : `of the ${thing} sends nothing`}: ${moment}, ${face}`, async () => {
          const amount = ++amounts * 10
          const waits = await begin(face, moment, amount)
          const vote = async () => {
            const { status, text } = await admin(`/api/escalations/${waits.id}/votes`, { vote: 'approve' })
            expect(status, text).to.equal(200)
          }
          if (moment === 'after the vote') await vote()
          const undo = await change(thing, face.startsWith('stateless') ? 'stateless' : 'handshake')
          await waits.lists()
          if (moment === 'before the vote') await vote()
          const text = await waits.finish(thing === 'argument' ? amount + 1 : amount)
          await undo()
          const sent = billing.refunds.filter((one) => one === amount || one === amount + 1)
          expect(sent, text).to.deep.equal(thing === 'nothing' ? [amount] : [])
        })
      }
    }
  }
})
