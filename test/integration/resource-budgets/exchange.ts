// Requests of the attacker and of another tenant, to their end or until they break off.
import { Agent, type IncomingMessage, request } from 'node:http'
import { pieceByPiece } from './writing.js'

interface Sending {
  readonly method: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string | Iterable<string>
  /** Pause between two pieces of the body. */
  readonly pauseMs?: number
  /** The request is left after this time. */
  readonly leaveMs?: number
  /** A response that takes longer has stalled. */
  readonly ms: number
  readonly agent?: Agent
}

export interface Exchanged {
  /** Undefined if the response broke off before its head. */
  readonly status: number | undefined
  /** The beginning of the body. */
  readonly begin: string
  readonly session: string | undefined
}

const shown = 2_048

/** Reads the response to its end, or until it breaks off. Rejects if it takes longer than `ms`. */
export function exchange(url: string, sending: Sending): Promise<Exchanged> {
  const { method, headers = {}, body = '', pauseMs = 0, leaveMs, ms, agent = false } = sending
  return new Promise((resolve, reject) => {
    let status: number | undefined
    let begin = ''
    let session: string | undefined
    const timer = setTimeout(() => {
      sent.destroy()
      reject(new Error(`${method} ${url} took longer than ${ms} ms`))
    }, ms)
    const leave = leaveMs === undefined ? undefined : setTimeout(() => sent.destroy(), leaveMs)
    const done = (): void => {
      clearTimeout(timer)
      clearTimeout(leave)
      resolve({ status, begin, session })
    }
    const sent = request(url, { method, headers, agent }, (message: IncomingMessage) => {
      status = message.statusCode
      const id = message.headers['mcp-session-id']
      session = typeof id === 'string' ? id : undefined
      message.on('data', (piece: Buffer) => {
        if (begin.length < shown) begin += piece.subarray(0, shown).toString('latin1')
      })
      message.once('end', done).once('error', done)
    })
    sent.once('error', done).once('close', done)
    if (typeof body === 'string') sent.end(body)
    else void pieceByPiece(sent, body, pauseMs).then(() => sent.end())
  })
}

export interface Probes {
  /** Rejects when another tenant is not served. */
  readonly failed: Promise<never>
  /** The longest that `/healthz` took, in milliseconds. */
  longestMs(): number
  stop(): Promise<void>
}

const probeMs = 25

/** Asks for the health of the gateway, and makes calls of another tenant, until it is stopped. */
export function probing(url: string, token: string, ms: number): Probes {
  const agent = new Agent({ keepAlive: true })
  let longestMs = 0
  let isOver = false
  const run = async (probe: () => Promise<void>): Promise<void> => {
    while (!isOver) {
      await probe()
      await new Promise((resolve) => setTimeout(resolve, probeMs))
    }
  }
  const running = Promise.all([
    run(async () => {
      const begun = performance.now()
      const { status } = await exchange(`${url}/healthz`, { method: 'GET', ms, agent })
      longestMs = Math.max(longestMs, performance.now() - begun)
      if (status !== 200) throw new Error(`/healthz responded with ${status}`)
    }),
    run(() => callOfOther(url, token, ms, agent)),
  ])
  return {
    failed: running.then(() => new Promise<never>(() => undefined)),
    longestMs: () => longestMs,
    async stop() {
      isOver = true
      await running.catch(() => undefined)
      agent.destroy()
    },
  }
}

async function callOfOther(url: string, token: string, ms: number, agent: Agent): Promise<void> {
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${token}` }
  const sending = { method: 'POST', headers, body: '{}', ms, agent }
  const { status, begin } = await exchange(`${url}/mcp/good/tool@1.0.0`, sending)
  if (status !== 200) throw new Error(`another tenant got ${status}: ${begin}`)
}
