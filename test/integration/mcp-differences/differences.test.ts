// Raw requests, valid or not, to a server directly, through a gateway, through two gateways in turn, and at an endpoint of
// several servers: each difference is in a table, with its reason.
import { expect } from 'chai'
import { type Revision, revisions, startServerOfEachRevision } from '../../support/mcp-revisions.js'
import { type McpRoutes, type Route, startMcpRoutes } from '../../support/mcp-routes.js'
import { propertyRuns } from '../../support/property-runs.js'
import { differencesAtSeveral } from './at-several.js'
import { differences } from './differences.js'
import { requestsOf, type TableRequest } from './requests.js'
import { Sender } from './sender.js'
import type { HttpResponse } from './wire.js'

const routes: readonly Route[] = [
  'directly',
  'through a gateway',
  'through two gateways',
  'as one of several',
]

/**
 * The requests that a revision is asked. In `npm test`, those that revisions have in common are asked in one of them by
 * turns, and each listed difference of a revision has one of its requests; `npm run chaos:properties` asks all.
 */
function askedOf(revision: Revision): ReadonlyMap<string, TableRequest> {
  const all = Object.entries(requestsOf(revision))
  if (propertyRuns(1) > 1) return new Map(all)
  const turn = revisions.indexOf(revision)
  const listed = listedOf(revision).map((requests) => all.find(([what]) => requests.test(what))?.[0])
  return new Map(all.filter(([what], at) => at % revisions.length === turn || listed.includes(what)))
}

/** The patterns of the differences that are listed for a revision. */
function listedOf(revision: Revision): RegExp[] {
  return [
    ...differences.filter((one) => one.revisions.includes(revision)).map(({ requests }) => requests),
    ...differencesAtSeveral.filter(([of]) => of.includes(revision)).map(([, requests]) => requests),
  ]
}

/** Requests of one session have the same id, so they follow each other; these sessions run at the same time. */
const sessionsEach = 4

/** The responses to each request, in the order of the routes. */
async function responsesOf(
  revision: Revision,
  to: McpRoutes['to'],
): Promise<Map<string, readonly HttpResponse[]>> {
  const left = [...askedOf(revision)]
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
  this.timeout(propertyRuns(1) > 1 ? 900_000 : 180_000)
  const responses = new Map<Revision, Map<string, readonly HttpResponse[]>>()

  before(async () => {
    await using opened = await startMcpRoutes(await startServerOfEachRevision(), 2)
    const asking = revisions.map(async (revision) => {
      responses.set(revision, await responsesOf(revision, opened.to))
    })
    await Promise.all(asking)
  })

  for (const revision of revisions) {
    for (const what of askedOf(revision).keys()) {
      const [known, ...more] = differencesOf(revision, what)
      const [atSeveral, ...moreAtSeveral] = differencesAtSeveral.filter(
        ([of, requests]) => of.includes(revision) && requests.test(what),
      )
      const said = known === undefined ? 'the same response as directly' : `another, because ${known.reason}`
      const saidAtSeveral =
        atSeveral === undefined ? 'the same outcome' : `another outcome, because ${atSeveral[3]}`
      it(`of ${revision} gets ${said}; at several servers ${saidAtSeveral}: ${what}`, () => {
        expect([more, moreAtSeveral], 'more than one difference is listed').to.deep.equal([[], []])
        const [directly, through, twice, at] = responses.get(revision)?.get(what) ?? []
        for (const response of [through, twice]) {
          if (known === undefined) expect(response?.whole).to.equal(directly?.whole)
          else {
            expect(directly?.brief).to.match(known.directly)
            expect(response?.brief).to.match(known.through).and.not.equal(directly?.brief)
          }
        }
        if (atSeveral === undefined) expect(at?.brief).to.equal(through?.brief)
        else expect(at?.brief).to.match(atSeveral[2]).and.not.equal(through?.brief)
        expect(directly).to.be.an('object')
      })
    }

    it(`of ${revision} matches each listed difference`, () => {
      const all = Object.keys(requestsOf(revision))
      const unmatched = listedOf(revision).filter((requests) => !all.some((what) => requests.test(what)))
      expect(unmatched.map(({ source }) => source)).to.deep.equal([])
    })
  }
})

function differencesOf(revision: Revision, what: string) {
  return differences.filter(({ revisions: of, requests }) => of.includes(revision) && requests.test(what))
}
