import { hasMembersAlike, membersLike } from '@svc/core/json'
import { expect } from 'chai'

describe('the members of an object that programs may take for a name', () => {
  it('are all names that a case mapping or normal form of Unicode makes of it', () => {
    let compared = 0
    for (let point = 0x21; point <= 0x1e943; point++) {
      if (point >= 0xd800 && point <= 0xdfff) continue
      const letter = String.fromCodePoint(point)
      const forms = new Set([letter.toLowerCase(), letter.toUpperCase()])
      for (const form of ['NFC', 'NFD', 'NFKC', 'NFKD'] as const) forms.add(letter.normalize(form))
      for (const form of [...forms]) forms.add(form.toLowerCase()).add(form.toUpperCase())
      forms.delete(letter)
      for (const form of forms) {
        compared++
        expect(membersLike({ [`x${form}`]: 1 }, `x${letter}`), `U+${point.toString(16)}`).to.have.lengthOf(1)
      }
    }
    expect(compared).to.be.greaterThan(20_000)
  })

  it('include the long s, the Kelvin sign, full width, characters that are not shown, and spaces around', () => {
    const names = ['task', 'TASK', 'ta\u017fk', 'tas\u212a', 'ｔask', 'ta\u00adsk', '\ufefftask', ' task']
    const object = Object.fromEntries([...names, 'tasks', 'tas', 't ask', 'тask'].map((name) => [name, 1]))
    expect(membersLike(object, 'task')).to.deep.equal(names)
    expect(membersLike({}, 'task')).to.deep.equal([])
    expect(membersLike(JSON.parse('{"__proto__":1}'), '__Proto__')).to.deep.equal(['__proto__'])
  })

  it('are found if an object at any depth has two', () => {
    expect(hasMembersAlike([{ a: { b: 1, c: [{ ſ: 1, S: 2 }] } }])).to.equal(true)
    expect(hasMembersAlike([{ a: { b: 1, c: [{ s: 1 }, { S: 2 }] } }, 'a', null, 1])).to.equal(false)
  })
})
