import { publicLookup } from '@svc/core/http'
import { expect } from 'chai'

const lookup = (name: string): Promise<unknown> =>
  new Promise((resolve, reject) =>
    publicLookup(name, {}, (error, address) => (error === null ? resolve(address) : reject(error))),
  )

describe('a lookup of public addresses', () => {
  it('returns a public address', async () => {
    expect(await lookup('8.8.8.8')).to.equal('8.8.8.8')
  })

  it('refuses a name with an address that is not public', async () => {
    for (const name of ['localhost', '10.0.0.1', '169.254.169.254', '::1', '::ffff:10.0.0.1']) {
      const error = await lookup(name).catch((error: unknown) => error)
      expect(error, name).to.have.property('code', 'EPRIVATE')
    }
  })
})
