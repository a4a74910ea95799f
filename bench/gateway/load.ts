// A closed-loop load generator over raw sockets: each connection sends the next request after the complete answer to the
// previous one. It is minimal, because it shares its core with the upstream. An answer other than 200 ends it.
import { connect, type Socket } from 'node:net'
import { answerParent } from '../measure/child.js'
import { quantile } from '../measure/statistics.js'
import type { LoadJob, LoadResult } from './load-job.js'

answerParent(0, { load })

/** One latency in this many is kept, to limit the memory of a long run. */
const SAMPLED = 7

async function load({ port, connections, requests, until }: LoadJob): Promise<LoadResult> {
  const bytes = requests.map((request) => Buffer.from(request, 'latin1'))
  const latencies: number[] = []
  const start = performance.now()
  const deadline = 'milliseconds' in until ? start + until.milliseconds : Number.POSITIVE_INFINITY
  let left = 'calls' in until ? until.calls : Number.POSITIVE_INFINITY
  let calls = 0

  const loop = (turn: number) =>
    new Promise<void>((resolve, reject) => {
      const socket = connect({ port, host: '127.0.0.1', noDelay: true })
      let sentAt = 0
      const next = () => {
        const now = performance.now()
        if (sentAt > 0) {
          calls++
          if (calls % SAMPLED === 0) latencies.push(now - sentAt)
        }
        if (now >= deadline || left <= 0) {
          socket.destroy()
          resolve()
          return
        }
        left--
        sentAt = now
        socket.write(bytes[turn++ % bytes.length] ?? Buffer.of())
      }
      socket.on('error', reject)
      socket.on('end', () => reject(new Error('the server closed the connection')))
      readAnswers(socket, next, reject)
      socket.on('connect', next)
    })

  await Promise.all(Array.from({ length: connections }, (_, i) => loop(i)))
  const seconds = (performance.now() - start) / 1000
  return { calls, seconds, p50: quantile(latencies, 0.5), p99: quantile(latencies, 0.99) }
}

/** Calls `done` at the end of each answer. A socket has at most one pending request. */
function readAnswers(socket: Socket, done: () => void, fail: (error: Error) => void): void {
  let held: Buffer | undefined
  socket.on('data', (chunk) => {
    const got = held === undefined ? chunk : Buffer.concat([held, chunk])
    held = got
    const end = got.indexOf('\r\n\r\n')
    if (end === -1) return
    const head = got.toString('latin1', 0, end)
    const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1]
    if (length === undefined) return fail(new Error(`an answer without content-length:\n${head}`))
    if (got.length < end + 4 + Number(length)) return
    if (!head.startsWith('HTTP/1.1 200')) return fail(new Error(`not served:\n${got.toString('latin1')}`))
    held = undefined
    done()
  })
}
