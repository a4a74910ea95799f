import { expect } from 'chai'
import fc from 'fast-check'
import { listedNames, NameConflict, prefixedName, sourceOfPrefixed } from 'svc-sdk/internal/federation/names'
import { propertyRuns } from '../../support/property-runs.js'

const accepted = /^[A-Za-z0-9_-]{1,64}$/

/** Names of every kind: plain, with separators, long, in other alphabets, and with an end like a hash. */
const nameOf = fc.oneof(
  fc.stringMatching(/^[a-z_-]{1,6}$/),
  fc.stringMatching(/^[A-Za-z0-9_-]{50,80}$/),
  fc.stringMatching(/^[a-b]{1,2}_[0-9a-f]{16}$/),
  fc.string({ minLength: 1, maxLength: 80, unit: 'grapheme' }),
)
const sources = fc.uniqueArray(fc.record({ server: nameOf, name: nameOf }), {
  selector: ({ server, name }) => JSON.stringify([server, name]),
  maxLength: 20,
})

describe('the listed names of tools', () => {
  for (const mode of ['always', 'conflict'] as const) {
    it(`are accepted by model APIs, differ, and do not depend on the order, with prefix: ${mode}`, () => {
      fc.assert(
        fc.property(sources, (given) => {
          const names = listedNames(given, mode)
          for (const name of names) expect(name).to.match(accepted)
          expect(new Set(names).size).to.equal(given.length)
          expect(listedNames([...given].reverse(), mode)).to.deep.equal([...names].reverse())
        }),
        { numRuns: propertyRuns(300) },
      )
    })
  }

  it('name their source if they have a prefix and are not shortened', () => {
    fc.assert(
      fc.property(nameOf, nameOf, (server, name) => {
        const source = sourceOfPrefixed(prefixedName({ server, name }))
        if (source !== undefined) expect(source).to.deep.equal({ server, name })
      }),
      { numRuns: propertyRuns(300) },
    )
    expect(sourceOfPrefixed('files__read__all')).to.deep.equal({ server: 'files', name: 'read__all' })
    expect(sourceOfPrefixed('read')).to.equal(undefined)
  })

  it('are shortened if they are too long or have other characters', () => {
    expect(prefixedName({ server: 'files', name: 'read_file' })).to.equal('files__read_file')
    expect(prefixedName({ server: 'my mail', name: 'send/all' })).to.match(/^my_mail_send_all_[0-9a-f]{16}$/)
    const long = prefixedName({ server: 'files', name: 'x'.repeat(60) })
    expect(long).to.match(/^files_x{41}_[0-9a-f]{16}$/)
    expect(prefixedName({ server: 'files', name: `${'x'.repeat(60)}y` })).to.not.equal(long)
  })

  const twice = [
    { server: 'a', name: 'read' },
    { server: 'b', name: 'read' },
    { server: 'b', name: 'write' },
  ]

  it('have a prefix if two servers list the same name, with prefix: conflict', () => {
    expect(listedNames(twice, 'conflict')).to.deep.equal(['a__read', 'b__read', 'write'])
  })

  it('cause an error if two servers list the same name, with prefix: never', () => {
    expect(() => listedNames(twice, 'never')).to.throw(NameConflict, '"read" is a name at a and b')
    expect(listedNames(twice.slice(1), 'never')).to.deep.equal(['read', 'write'])
  })
})
