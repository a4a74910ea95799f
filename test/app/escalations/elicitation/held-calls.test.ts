// The limits of held calls, with time and clients that the test controls.
import { mock } from 'node:test'
import { bind, denied, identity, services } from '@svc/core'
import { escalationService } from '@svc/plugin-enforcement'
import { expect } from 'chai'
import { type Attempt, HeldCalls } from 'svc-sdk/internal/escalations/elicitation/held-calls'
import { createContainer } from 'svc-sdk/internal/gateway/container'
import { ClientRequests } from 'svc-sdk/internal/mcp/client-requests'
import type { AskedClient } from 'svc-sdk/internal/mcp/elicitation'
import { attachExchange, type ElicitationResponse, openExchange } from 'svc-sdk/internal/mcp/exchange'
import type { ActivePolicy } from 'svc-sdk/internal/policy/active-policy'
import { LineExchange } from 'svc-sdk/internal/stdio/gateway/endpoint-session'
import { fakeCallControl } from 'svc-sdk/internal/testing/call'
import { FakeClock } from 'svc-sdk/testing'
import { mcpState } from '../../../support/mcp-state.js'

interface HeldCall {
  readonly attempt: Attempt
  readonly client: AskedClient
  /** The methods of what the client got, and `response` for the response. */
  readonly got: string[]
  cancel(): void
}

let calls = 0

function callOf(user: string, bytes = 100): HeldCall {
  const id = ++calls
  const got: string[] = []
  const call = fakeCallControl({ protocol: 'mcp', request: { bytes } })
  call.set(identity, { tenant: 'acme', authenticated: true, roles: [], user })
  const headers = { accept: 'text/event-stream', 'mcp-protocol-version': '2025-11-25' }
  const exchange = openExchange({
    method: 'POST',
    headers,
    server: 'billing',
    upstream: () => new URL('http://server.invalid'),
    modes: { form: true, url: true },
  })
  const whole = { jsonrpc: '2.0', id, method: 'tools/call', params: {} }
  exchange.message = { type: 'request', id, method: 'tools/call', params: {}, whole } as never
  attachExchange(call, exchange)
  const cancelled = new AbortController()
  const outcome = denied('ESCALATION_PENDING', 'waits', {
    escalation: { id: `esc_${id}`, status: 'pending' },
  })
  return {
    got,
    cancel: () => cancelled.abort(),
    attempt: {
      call,
      outcome,
      write: () => void got.push('response'),
      writeResult: () => void got.push('response'),
    },
    client: {
      exchange: new LineExchange({
        method: 'POST',
        headers,
        signal: new AbortController().signal,
        onEvent: (event) =>
          void got.push(/"method":"([^"]+)"/.exec(Buffer.from(event).toString())?.[1] ?? ''),
      }),
      progressToken: 'p',
      cancelled: cancelled.signal,
      name: `${user} ${id}`,
    },
  }
}

/** Nobody votes. */
function heldCalls(maxHoldMs: number): HeldCalls {
  const container = createContainer()
  const wait = (_id: string, _ms: number, signal: AbortSignal) =>
    new Promise((resolve) => signal.addEventListener('abort', () => resolve({ status: 'pending' })))
  bind(container, escalationService, { useValue: { wait } as never })
  bind(container, services.approvalPage, { useValue: (id: string) => `http://localhost:1/${id}` })
  const policy = {
    container,
    wait: (ask: (ended: AbortSignal) => unknown) => ask(new AbortController().signal),
  } as unknown as ActivePolicy
  return new HeldCalls({
    rounds: {} as never,
    requests: new ClientRequests(mcpState(new FakeClock())),
    maxHoldMs,
    keepAliveMs: 15_000,
    policies: { current: policy, isDraining: false },
  })
}

/** Holds a call that is not repeated. */
function hold(held: HeldCalls, { client, attempt }: HeldCall): Promise<void> {
  const run = async (elicited?: ElicitationResponse): Promise<Attempt> => {
    if (elicited !== undefined) throw new Error('repeated')
    return attempt
  }
  return held.run(run, () => client)
}

const turns = async (): Promise<void> => {
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve))
}

describe('calls that are held while a person decides', () => {
  afterEach(() => mock.timers.reset())

  it('wait 45 seconds with progress, and then get the response of a call that waits', async () => {
    mock.timers.enable({ apis: ['setTimeout', 'setInterval'] })
    const held = heldCalls(45_000)
    const call = callOf('ada')
    const { got } = call
    const done = hold(held, call)
    await turns()
    expect(got).to.deep.equal(['elicitation/create'])
    mock.timers.tick(44_999)
    await turns()
    const progress = Array.from({ length: 8 }, () => 'notifications/progress')
    expect(got).to.deep.equal(['elicitation/create', ...progress])
    mock.timers.tick(1)
    await done
    expect(got.slice(10)).to.deep.equal(['notifications/cancelled', 'response'])
    mock.timers.tick(60_000)
    expect(got).to.have.length(12)
  })

  it('are at most 20 of one caller and 1,000 of all; another gets its response, until one has ended', async () => {
    const held = heldCalls(45_000)
    const all: { readonly call: HeldCall; readonly done: Promise<void> }[] = []
    const add = async (user: string, bytes?: number): Promise<readonly string[]> => {
      const call = callOf(user, bytes)
      await call.attempt.call.request()
      all.push({ call, done: hold(held, call) })
      await turns()
      return call.got
    }
    for (let caller = 0; caller < 49; caller++) {
      const own = Array.from({ length: 20 }, () => callOf(`user-${caller}`))
      for (const call of own) all.push({ call, done: hold(held, call) })
    }
    await turns()
    expect(all.every(({ call }) => call.got.join() === 'elicitation/create')).to.equal(true)
    expect(await add('user-0')).to.deep.equal(['response'])
    // Twenty parts of 64 KiB.
    expect(await add('ada', 19 * 65_536 + 65_535)).to.deep.equal(['elicitation/create'])
    expect(await add('bob')).to.deep.equal(['response'])
    all[0]?.call.cancel()
    await all[0]?.done
    expect(await add('bob', 65_536)).to.deep.equal(['response'])
    expect(await add('bob', 65_535)).to.deep.equal(['elicitation/create'])
    await held.close(1_000)
    await Promise.all(all.map(({ done }) => done))
    expect(all.every(({ call }) => call.got.at(-1) === 'response')).to.equal(true)
    expect(await add('bob')).to.deep.equal(['response'])
  })
})
