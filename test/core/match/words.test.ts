import { wordsOf } from '@svc/core/match'
import { expect } from 'chai'
import fc from 'fast-check'

describe('wordsOf', () => {
  for (const [name, words] of [
    ['deleteUser', ['delete', 'user']],
    ['delete_user', ['delete', 'user']],
    ['DELETE-USER', ['delete', 'user']],
    ['HTTPServerUrl', ['http', 'server', 'url']],
    ['files.read/now', ['files', 'read', 'now']],
    ['updated', ['updated']],
    ['url2', ['url', '2']],
    ['2ndFile', ['2', 'nd', 'file']],
    ['ÉcrireFichier', ['écrire', 'fichier']],
    ['', []],
    ['--', []],
    ['callbackURL', ['callback', 'url']],
    ['aB', ['a', 'b']],
  ] as const)
    it(`splits ${JSON.stringify(name)} into ${words.join(', ') || 'nothing'}`, () => {
      expect(wordsOf(name)).to.deep.equal(words)
    })

  it('finds a word in every spelling of a compound', () => {
    const word = fc.string({ unit: fc.constantFrom(...'abcdxyz'), minLength: 2, maxLength: 6 })
    const title = (text: string) => text.charAt(0).toUpperCase() + text.slice(1)
    fc.assert(
      fc.property(fc.array(word, { minLength: 1, maxLength: 4 }), (words) => {
        const spellings = [
          words.join('_'),
          words.join('-').toUpperCase(),
          words.map(title).join(''),
          words.join(' '),
        ]
        for (const spelling of spellings) expect(wordsOf(spelling)).to.deep.equal(words)
      }),
    )
  })
})
