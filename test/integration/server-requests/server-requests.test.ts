// What servers ask of clients: every kind, over every route, between clients and servers of both kinds of revisions.
import { expect } from 'chai'
import {
  type Asking,
  type Era,
  eras,
  kinds,
  openRoute,
  type Route,
  requestOf,
  routes,
  startAsking,
} from './asking.js'

/** With one server, client and server speak the same kind of revision; a client of `svc stdio` begins with a handshake. */
function isPossible(route: Route, client: Era, server: Era): boolean {
  return route === 'several servers' || (route === 'one server' ? client === server : client === 'handshake')
}

const url_hosts = ['*.good.example']

describe('a request of a server to its client', function () {
  this.timeout(120_000)
  let asking: Asking

  before(async () => {
    asking = await startAsking()
  })
  after(() => asking[Symbol.asyncDispose]())

  for (const route of routes) {
    for (const server of eras) {
      for (const client of eras) {
        if (!isPossible(route, client, server)) continue
        const name = `over ${route}, from a ${server} server to a ${client} client`
        it(`${name}, is passed without the section and recorded with it`, async () => {
          for (const protections of [undefined, { server_requests: { sampling: 'record', url_hosts } }]) {
            await using opened = await openRoute(
              route,
              asking.urls[server],
              protections === undefined ? {} : { protections },
            )
            await using connected = await opened.connect(client)
            for (const kind of kinds) {
              const result = await connected.call(requestOf[kind])
              expect(connected.asked, `${kind}: ${result}`).to.have.length(1)
              const [params] = connected.asked.splice(0)
              const isNamed = String(params?.['message']).startsWith('Request of the server "asking": ')
              expect(isNamed, kind).to.equal(protections !== undefined && kind.startsWith('elicitation'))
              expect(result, kind).to.match(/Sampled|main|accept|work/)
              if (server === 'stateless') expect(result, kind).to.contain('of the server')
              const recorded = opened.records().filter(({ tool }) => tool === `server_requests/${kind}@1`)
              expect(recorded, kind).to.have.length(protections === undefined ? 0 : 1)
            }
          }
        })

        it(`${name}, is refused before the client gets it`, async () => {
          const denied = {
            sampling: 'deny',
            elicitation_form: 'deny',
            elicitation_url: 'deny',
            roots: 'deny',
          }
          await using opened = await openRoute(route, asking.urls[server], {
            protections: { server_requests: denied },
          })
          await using connected = await opened.connect(client)
          for (const kind of kinds) {
            const result = await connected.call(requestOf[kind])
            expect(connected.asked, kind).to.deep.equal([])
            expect(result, kind).to.match(/refuses the request|server_request_denied/)
            const [record, ...others] = opened
              .records()
              .filter(({ tool }) => tool === `server_requests/${kind}@1`)
            expect(others, kind).to.deep.equal([])
            expect(record?.['policy'], kind).to.include({ decision: 'deny' })
            expect(JSON.stringify(record), kind).to.contain('server_request_denied').and.to.contain('asking')
          }
        })
      }
    }
  }
})

describe('the response of a client that the policy denies', function () {
  this.timeout(120_000)
  let asking: Asking

  before(async () => {
    asking = await startAsking()
  })
  after(() => asking[Symbol.asyncDispose]())

  const security = { fs_allowlist: ['/srv/**'], egress_allowlist: [] }

  for (const route of routes) {
    it(`becomes an error for the server, whose call goes on: ${route}`, async () => {
      await using opened = await openRoute(route, asking.urls.handshake, { security })
      await using connected = await opened.connect('handshake')
      const result = await connected.call(requestOf.roots)
      expect(connected.asked).to.have.length(1)
      expect(result).to.contain('The gateway refuses the response of the client')
      expect(result).to.contain('fs_violation').and.not.to.contain('/work')
    })
  }
})
