// What lasts longer than a call, over faults of the hosts: a session of MCP, which any gateway continues, and approvals, which
// are asked for at one gateway, voted on at another, and used at a third.
import { randomUUID } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Fleet, Host } from '@svc/example-several-hosts/fleet'
import { expect } from 'chai'
import { postMcp } from '../../support/mcp-post.js'
import { callEcho, initialize, json, type Message, serverOf } from '../../support/mcp-server.js'
import type { TestUpstream } from '../../support/upstream.js'
import { type Callers, patience, repeatable } from './callers.js'

const adminToken = 'a-token-of-the-operator'

export class Conversations implements AsyncDisposable {
  readonly #fleet: Fleet
  readonly #callers: Callers
  readonly #desk: TestUpstream
  #session = ''
  #calls = 0
  /** Calls in the session whose outcome nobody knows: they may have been sent. */
  #unknown = 0

  private constructor(fleet: Fleet, callers: Callers, desk: TestUpstream) {
    this.#fleet = fleet
    this.#callers = callers
    this.#desk = desk
  }

  /** Starts the gateways again with an MCP server, a tool whose calls wait for approval, and an admin listener. */
  static async start(fleet: Fleet, callers: Callers): Promise<Conversations> {
    const { upstream } = await serverOf((message, response) => {
      const result = { content: [{ type: 'text', text: 'served' }] }
      json(response, { jsonrpc: '2.0', id: message['id'], result })
    })
    const conversations = new Conversations(fleet, callers, upstream)
    try {
      await Promise.all(fleet.hosts.map((host) => startAgain(host, `${upstream.url}/mcp`)))
      // HAProxy may not have seen yet that they are ready again.
      await repeat('the session', async () => {
        const begun = await conversations.#post(initialize)
        await begun.arrayBuffer()
        conversations.#session = begun.headers.get('mcp-session-id') ?? ''
        return begun.ok
      })
      return conversations
    } catch (error) {
      await conversations[Symbol.asyncDispose]()
      throw error
    }
  }

  /** Calls in the session until the end. */
  async callUntil(end: AbortSignal): Promise<void> {
    while (!end.aborted) {
      const key = randomUUID()
      const params = { ...callEcho.params, name: 'desk__echo', _meta: { 'svc/idempotency-key': key } }
      await repeat('a call in the session', async () => {
        const { status, text } = await this.#responseTo({ ...callEcho, params })
        if (text.includes('served')) return true
        const [, code] = /"error":"([A-Z_]+)"/.exec(text) ?? []
        if (code === 'IDEMPOTENT_OUTCOME_UNKNOWN') this.#unknown++
        // HAProxy's own responses are HTML; without a status the connection was broken.
        const mayRepeat =
          code === undefined ? status === 0 || text.startsWith('<') : repeatable.includes(code)
        if (!mayRepeat && code !== 'IDEMPOTENT_OUTCOME_UNKNOWN') throw new Error(`${status}: ${text}`)
        return !mayRepeat
      })
      this.#calls++
    }
  }

  /** A call that escalates now; the returned function approves and repeats it, until it has been sent. */
  async escalate(): Promise<() => Promise<void>> {
    const key = randomUUID()
    const refund = () => this.#callers.call(this.#fleet.url, 'refund', key)
    const asked = await refund()
    expect(asked.outcome, asked.body).to.equal('pending')
    return () =>
      repeat('the approved call', async () => {
        const { outcome, body } = await refund()
        if (outcome === 'ok') return true
        expect(outcome, body).to.equal('pending')
        const { escalation_id } = JSON.parse(body) as { escalation_id: string }
        await this.#approve(escalation_id)
        return false
      })
  }

  /** The server received every call once, and none is lost. */
  count(): Record<string, number> {
    const received = this.#desk.calls.map(({ body }) => JSON.parse(body) as Message)
    const calls = received.filter(({ method }) => method === 'tools/call')
    expect(calls.length, 'calls in the session that the server received')
      .to.be.at.most(this.#calls)
      .and.at.least(this.#calls - this.#unknown)
    return { 'calls in one session of MCP': this.#calls }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#desk[Symbol.asyncDispose]()
  }

  async #approve(id: string): Promise<void> {
    for (const host of this.#fleet.hosts) {
      const url = `${adminUrlOf(this.#fleet, host)}/api/escalations/${id}/votes`
      const headers = { 'content-type': 'application/json', authorization: `Bearer ${adminToken}` }
      const vote = fetch(url, { method: 'POST', headers, body: '{"vote":"approve"}' })
      const response = await vote.catch(() => undefined)
      await response?.arrayBuffer()
      if (response?.ok) return
    }
  }

  #post(message: object): Promise<Response> {
    const headers = this.#session === '' ? {} : { 'mcp-session-id': this.#session }
    return postMcp(`${this.#fleet.url}/mcp/desks`, message, headers)
  }

  async #responseTo(message: object): Promise<{ status: number; text: string }> {
    try {
      const response = await this.#post(message)
      return { status: response.status, text: await response.text() }
    } catch {
      return { status: 0, text: '' }
    }
  }
}

async function startAgain(host: Host, desk: string): Promise<void> {
  const file = join(host.dir, 'policy.yaml')
  const policy = readFileSync(file, 'utf8')
    .replace('targets:', `targets:\n  desk: ${desk}`)
    .replace('shop/send_voucher]', 'shop/send_voucher, shop/refund, desk/echo]')
  const more = `
federation: { groups: { desks: [desk] } }
rules: [{ name: refunds-wait, tools: [shop/refund], then: escalate }]
security: { side_effects: { approve_high_risk: true } }
admin: { port: 0, tokenRef: file://admin-token }
`
  writeFileSync(file, policy + more)
  writeFileSync(join(host.dir, 'admin-token'), adminToken, { mode: 0o600 })
  await host.gateway.end('SIGTERM')
  await host.gateway.start()
}

/** Of the host's last start. */
function adminUrlOf(fleet: Fleet, host: Host): string {
  const output = readFileSync(join(fleet.dir, 'output', `${host.name}.txt`), 'utf8')
  return [...output.matchAll(/"adminUrl":"([^"]+)"/g)].at(-1)?.[1] ?? ''
}

async function repeat(what: string, isDone: () => Promise<boolean>): Promise<void> {
  const giveUp = performance.now() + patience
  while (!(await isDone())) {
    if (performance.now() > giveUp) throw new Error(`${what} has no outcome`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}
