import { MemoryKeyValueStore } from '@svc/core/store'
import { expect } from 'chai'
import { ClientRequests } from 'svc-sdk/internal/mcp/client-requests'
import { FakeClock } from 'svc-sdk/testing'
import { mcpState } from '../../support/mcp-state.js'

const clock = new FakeClock()
const client = 'ada in a session'

describe("the gateway's request to a client", () => {
  it('is sent once another gateway can take its response, even if the store is slow', async () => {
    const slow = new MemoryKeyValueStore({ clock })
    const commit = slow.commit.bind(slow)
    slow.commit = async (...given) => {
      await new Promise((resolve) => setImmediate(resolve))
      return commit(...given)
    }
    const store = async () => slow
    const [asking, other] = [0, 1].map(() => new ClientRequests(mcpState(clock, store)))
    const id = asking?.nextId() ?? ''
    const whole = { jsonrpc: '2.0', id, result: { action: 'decline' } }
    const isTaken: (boolean | undefined)[] = []
    const send = async () => {
      isTaken.push(await other?.give(client, { type: 'response', id, whole } as never))
    }
    const { signal } = new AbortController()
    expect(await asking?.responseTo(client, id, { signal, send })).to.deep.equal(whole)
    expect(isTaken).to.deep.equal([true])
  })
})
