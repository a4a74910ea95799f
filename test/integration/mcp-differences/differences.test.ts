// Raw requests, valid or not, to a server directly, through a gateway, through two gateways in turn, and at an endpoint of
// several servers: each difference is in a table, with its reason.
import { expect } from 'chai'
import { type Revision, revisions, startServerOfEachRevision } from '../../support/mcp-revisions.js'
import { type McpRoutes, type Route, startMcpRoutes } from '../../support/mcp-routes.js'
import { differencesAtSeveral } from './at-several.js'
import { differences } from './differences.js'
import { requestsOf } from './requests.js'
import { Sender } from './sender.js'
import type { HttpResponse } from './wire.js'

const routes: readonly Route[] = [
  'directly',
  'through a gateway',
  'through two gateways',
  'as one of several',
]

/** Requests of one session have the same id, so they follow each other; these sessions run at the same time. */
const sessionsEach = 4

/** The responses to each request, in the order of the routes. */
async function responsesOf(
  revision: Revision,
  to: McpRoutes['to'],
): Promise<Map<string, readonly HttpResponse[]>> {
  const left = Object.entries(requestsOf(revision))
  const responses = new Map<string, readonly HttpResponse[]>()
  const ask = async (): Promise<void> => {
    const senders = routes.map((route) => new Sender(to(revision, route), revision))
    for (let next = left.pop(); next !== undefined; next = left.pop()) {
      const [what, raw] = next
      responses.set(what, await Promise.all(senders.map((sender) => sender.send(raw))))
    }
  }
  await Promise.all(Array.from({ length: sessionsEach }, ask))
  return responses
}

describe('a raw request over MCP', function () {
  this.timeout(180_000)
  const responses = new Map<Revision, Map<string, readonly HttpResponse[]>>()

  before(async () => {
    await using opened = await startMcpRoutes(await startServerOfEachRevision(), 2)
    const asking = revisions.map(async (revision) => {
      responses.set(revision, await responsesOf(revision, opened.to))
    })
    await Promise.all(asking)
  })

  for (const revision of revisions) {
    const requests = Object.keys(requestsOf(revision))
    for (const what of requests) {
      const [known, ...more] = differencesOf(revision, what)
      it(`of ${revision} gets ${known === undefined ? 'the same response as directly' : `another response, because ${known.reason}`}: ${what}`, () => {
        expect(more, 'more than one difference is listed').to.deep.equal([])
        const [directly, ...others] = responses.get(revision)?.get(what) ?? []
        const through = others.slice(0, 2)
        for (const response of through) {
          if (known === undefined) expect(response.whole).to.equal(directly?.whole)
          else {
            expect(directly?.brief).to.match(known.directly)
            expect(response.brief).to.match(known.through).and.not.equal(directly?.brief)
          }
        }
        expect(through).to.have.length(2)
      })

      const [atSeveral, ...moreAtSeveral] = differencesAtSeveral.filter(
        ([of, requests]) => of.includes(revision) && requests.test(what),
      )
      const said = atSeveral === undefined ? 'the same outcome' : `another one, because ${atSeveral[3]}`
      it(`of ${revision} gets ${said} at an endpoint of several servers: ${what}`, () => {
        expect(moreAtSeveral, 'more than one difference is listed').to.deep.equal([])
        const [, through, , at] = responses.get(revision)?.get(what) ?? []
        if (atSeveral === undefined) expect(at?.brief).to.equal(through?.brief)
        else expect(at?.brief).to.match(atSeveral[2]).and.not.equal(through?.brief)
      })
    }
  }

  for (const [listed, requests] of differencesAtSeveral) {
    for (const revision of listed) {
      it(`of ${revision} matches a listed difference at several servers: ${requests.source}`, () => {
        expect(Object.keys(requestsOf(revision)).some((what) => requests.test(what))).to.equal(true)
      })
    }
  }

  for (const { requests, revisions: listed } of differences) {
    for (const revision of listed) {
      it(`of ${revision} matches a listed difference: ${requests.source}`, () => {
        expect(Object.keys(requestsOf(revision)).some((what) => requests.test(what))).to.equal(true)
      })
    }
  }
})

function differencesOf(revision: Revision, what: string) {
  return differences.filter(({ revisions: of, requests }) => of.includes(revision) && requests.test(what))
}
