import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { Refusal } from '@svc/core'
import { expect } from 'chai'
import { readBody } from 'svc-sdk/internal/http/body'
import { rejectionOf } from '../../support/rejection.js'

/** Calls `use` with the server's request after its caller has sent `text` and disconnected. */
async function afterLeaving(text: string, use: (message: IncomingMessage) => Promise<void>): Promise<void> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  try {
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
    const arriving = once(server, 'request') as Promise<[IncomingMessage]>
    socket.write(`POST / HTTP/1.1\r\nhost: x\r\n${text}`)
    const [message] = await arriving
    const leaving = new Promise((resolve) => message.once('close', resolve))
    socket.destroy()
    await leaving
    await use(message)
  } finally {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
}

async function refusalOf(reading: Promise<unknown>): Promise<Refusal> {
  const error = await rejectionOf(reading)
  expect(error).to.be.instanceOf(Refusal)
  return error as Refusal
}

describe('readBody', () => {
  it('refuses a request if its caller left before it was read', () =>
    afterLeaving('content-length: 10\r\n\r\n{"a":', async (message) => {
      expect(await refusalOf(readBody(message, 100))).to.have.property('code', 'CANCELLED')
    }))

  it('refuses a request that had arrived completely if its caller left before it was read', () =>
    afterLeaving('content-length: 2\r\n\r\n{}', async (message) => {
      expect(await refusalOf(readBody(message, 100))).to.have.property('code', 'CANCELLED')
    }))
})
