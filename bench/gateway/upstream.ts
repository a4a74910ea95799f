// The tool server of the benchmarks: always the same small JSON answer, over a raw socket with a scan for the end of the
// request, so that its cost is negligible.
import { createServer, type Socket } from 'node:net'
import { answerParent } from '../measure/child.js'
import { listen } from './listen.js'

const BODY = JSON.stringify({
  content: [{ type: 'text', text: 'Three invoices are open, the oldest since 14 days.' }],
  invoices: [
    { id: 'inv-2041', amount: 129900, currency: 'EUR', due: '2026-03-14', paid: false },
    { id: 'inv-2057', amount: 48000, currency: 'EUR', due: '2026-03-21', paid: false },
  ],
  next: null,
})
const ANSWER = Buffer.from(
  `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(BODY)}\r\n` +
    `connection: keep-alive\r\n\r\n${BODY}`,
)

const server = createServer({ noDelay: true }, (socket) => {
  answerEach(socket)
  // A client that disconnects in the middle of an exchange is the end of a round, not an error.
  socket.on('error', () => socket.destroy())
})
answerParent(await listen(server), {})

function answerEach(socket: Socket): void {
  let held: Buffer = Buffer.alloc(0)
  socket.on('data', (chunk) => {
    held = held.length === 0 ? chunk : Buffer.concat([held, chunk])
    for (;;) {
      const end = held.indexOf('\r\n\r\n')
      if (end === -1) return
      const length = /\r\ncontent-length: *(\d+)/i.exec(held.toString('latin1', 0, end))?.[1] ?? '0'
      const next = end + 4 + Number(length)
      if (held.length < next) return
      held = held.subarray(next)
      socket.write(ANSWER)
    }
  })
}
