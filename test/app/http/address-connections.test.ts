import { EventEmitter } from 'node:events'
import { expect } from 'chai'
import { UseLimit } from 'svc-sdk/internal/budget/use-limit'
import { AddressConnections } from 'svc-sdk/internal/http/connections'

function connection(remoteAddress: string) {
  const socket = Object.assign(new EventEmitter(), { remoteAddress })
  return { socket, close: () => socket.emit('close') }
}

const none = () => false

describe('the limit of connections of one address', () => {
  it('admits connections up to the cap, and again after one has closed', () => {
    const connections = new AddressConnections(new UseLimit(2), none)
    const first = connection('192.0.2.1')
    expect(connections.admit(first.socket)).to.equal(true)
    expect(connections.admit(connection('192.0.2.1').socket)).to.equal(true)
    expect(connections.admit(connection('192.0.2.1').socket)).to.equal(false)
    expect(connections.admit(connection('192.0.2.2').socket)).to.equal(true)
    first.close()
    expect(connections.admit(connection('::ffff:192.0.2.1').socket)).to.equal(true)
    expect(connections.admit(connection('::ffff:192.0.2.1').socket)).to.equal(false)
  })

  it('counts IPv6 clients by their /64 network', () => {
    const connections = new AddressConnections(new UseLimit(1), none)
    expect(connections.admit(connection('2001:db8::1').socket)).to.equal(true)
    expect(connections.admit(connection('2001:db8:0:0:ffff::2').socket)).to.equal(false)
    expect(connections.admit(connection('2001:db8:0:0:1:2:3:4').socket)).to.equal(false)
    expect(connections.admit(connection('2001:db8:0:1::1').socket)).to.equal(true)
    expect(connections.admit(connection('::1').socket)).to.equal(true)
  })

  it('does not count the connections of a trusted proxy', () => {
    const connections = new AddressConnections(new UseLimit(1), (address) => address === '192.0.2.1')
    for (let i = 0; i < 5; i++) expect(connections.admit(connection('192.0.2.1').socket)).to.equal(true)
  })
})
