// A load generator over raw sockets. A connection sends a request after the complete response to the previous one: at once, or
// when the next request is due. It is minimal, because it shares its core with the upstream. A response other than 200 ends it.
import { connect, type Socket } from 'node:net'
import { respondToParent } from '../measure/child.js'
import { quantile } from '../measure/statistics.js'
import type { LoadJob, LoadResult } from './load-job.js'

respondToParent(0, { load })

const TICK_MS = 1
const SETTLING_MS = 500

async function load({ port, connections, requests, until, perSecond }: LoadJob): Promise<LoadResult> {
  const bytes = requests.map((request) => Buffer.from(request, 'latin1'))
  const latencies: number[] = []
  const start = performance.now()
  const deadline = 'milliseconds' in until ? start + until.milliseconds : Number.POSITIVE_INFINITY
  const calls = 'calls' in until ? until.calls : Number.POSITIVE_INFINITY
  // At a rate, one slow response of each new connection would be the 99th percentile.
  const settled = perSecond === undefined ? start : start + SETTLING_MS
  let sent = 0
  let responses = 0
  const isOver = (now: number) => now >= deadline || sent >= calls
  const dueAt = (now: number) => (perSecond === undefined ? now : start + (sent / perSecond) * 1000)
  /** Connections that wait until a request is due. */
  const idle: (() => void)[] = []

  const loop = (request: Buffer) =>
    new Promise<void>((resolve, reject) => {
      const socket = connect({ port, host: '127.0.0.1', noDelay: true })
      let due = 0
      const next = () => {
        const now = performance.now()
        if (isOver(now)) {
          socket.destroy()
          resolve()
          return
        }
        due = dueAt(now)
        if (due > now) {
          idle.push(next)
          return
        }
        sent++
        socket.write(request)
      }
      const responded = () => {
        const now = performance.now()
        responses++
        if (due >= settled) latencies.push(now - due)
        next()
      }
      socket.on('error', reject)
      socket.on('end', () => reject(new Error('the server closed the connection')))
      readResponses(socket, responded, reject)
      socket.on('connect', next)
    })

  const wake = () => {
    const now = performance.now()
    while (idle.length > 0 && (isOver(now) || dueAt(now) <= now)) idle.shift()?.()
  }
  const ticks = perSecond === undefined ? undefined : setInterval(wake, TICK_MS)
  try {
    await Promise.all(
      Array.from({ length: connections }, (_, i) => loop(bytes[i % bytes.length] ?? Buffer.of())),
    )
  } finally {
    clearInterval(ticks)
  }
  const seconds = (performance.now() - start) / 1000
  const [p50, p99] = [quantile(latencies, 0.5), quantile(latencies, 0.99)]
  return { calls: responses, seconds, p50, p99 }
}

/** Calls `done` at the end of each response. A socket has at most one pending request. */
function readResponses(socket: Socket, done: () => void, fail: (error: Error) => void): void {
  let held: Buffer | undefined
  socket.on('data', (chunk) => {
    const got = held === undefined ? chunk : Buffer.concat([held, chunk])
    held = got
    const end = got.indexOf('\r\n\r\n')
    if (end === -1) return
    const head = got.toString('latin1', 0, end)
    const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1]
    if (length === undefined) return fail(new Error(`a response without content-length:\n${head}`))
    if (got.length < end + 4 + Number(length)) return
    if (!head.startsWith('HTTP/1.1 200')) return fail(new Error(`not served:\n${got.toString('latin1')}`))
    held = undefined
    done()
  })
}
