import { expect } from 'chai'
import { BoundedTable } from 'svc-sdk/internal/budget/bounded-table'

const days = 86_400_000

interface Session {
  readonly name: string
  isIdle: boolean
}

describe('a table of kept values', () => {
  const clock = { time: 0, monotonic: () => clock.time }
  let ended: string[]
  let table: BoundedTable<Session>

  beforeEach(() => {
    ended = []
    table = new BoundedTable({
      clock,
      what: 'sessions of a server',
      limits: { limit: 3, limitOfMember: 2 },
      unusedMs: 7 * days,
      mayEnd: ({ isIdle }) => isIdle,
      onEnd: ({ name }) => ended.push(name),
    })
  })

  const of = (member: string | undefined) => (member === undefined ? undefined : { owner: '', member })
  const add = (name: string, member: string | undefined, isIdle = true) =>
    table.add(name, of(member), { name, isIdle })
  const names = () => table.all().map(({ name }) => name)

  it('evicts the session that an owner used longest ago for its next one', () => {
    add('a', 'ada')
    add('b', 'ada')
    table.use('a', of('ada'))
    add('c', 'ada')
    expect(ended).to.deep.equal(['b'])
    expect(names()).to.deep.equal(['a', 'c'])
  })

  it('evicts the session that was used longest ago if all owners together have too many', () => {
    for (const owner of ['ada', 'bob', undefined]) add(String(owner), owner)
    add('d', 'dan')
    expect(ended).to.deep.equal(['ada'])
  })

  it('never evicts a session in use, and refuses a new one if all are in use', () => {
    add('a', 'ada', false)
    add('b', 'ada')
    add('c', 'ada')
    expect(ended).to.deep.equal(['b'])
    table.add('c', of('ada'), { name: 'c', isIdle: false })
    expect(() => add('d', 'ada')).to.throw('The caller has as many sessions of a server as allowed')
    add('e', 'bob', false)
    expect(() => add('f', 'dan'))
      .to.throw('All callers together have')
      .with.property('code', 'RATE_LIMITED')
    expect(names()).to.deep.equal(['a', 'c', 'e'])
  })

  it('does not show the session of one owner to another', () => {
    add('a', 'ada')
    expect(table.use('a', of('bob'))).to.equal(undefined)
    expect(table.use('a', of('ada'))).to.include({ name: 'a' })
  })

  it('ends sessions that were not used for over a week, unless they are in use', () => {
    add('a', 'ada')
    const used = add('b', 'bob', false)
    clock.time += 8 * days
    expect(table.use('a')).to.equal(undefined)
    expect(table.use('b')).to.equal(used)
    add('c', 'ada')
    clock.time += 8 * days
    add('d', 'dan')
    expect(ended).to.deep.equal(['a', 'c'])
  })

  it('evicts the value used longest ago of the largest member of the largest tenant', () => {
    const bytes = new BoundedTable<string>({
      clock,
      what: 'lists',
      limits: { limit: 100, limitOfOwner: 70 },
      unusedMs: days,
      onEnd: (name) => ended.push(name),
    })
    const keep = (owner: string, member: string, amount: number) => {
      const name = `${owner} ${member} ${amount}`
      return bytes.add(name, { owner, member }, name, amount)
    }
    keep('a', 'small', 10)
    keep('a', 'large', 30)
    keep('b', 'own', 25)
    keep('a', 'large', 21)
    expect(ended).to.deep.equal([])
    keep('c', 'own', 15)
    expect(ended).to.deep.equal(['a large 30'])
    expect(() => keep('c', 'own', 71)).to.throw('More lists than one caller may have')
    keep('a', 'small', 40)
    expect(ended).to.deep.equal(['a large 30', 'a large 21'])
    clock.time += 2 * days
    bytes.endExpired()
    expect(bytes.budget.used).to.equal(0)
  })
})
