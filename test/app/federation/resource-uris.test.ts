import { expect } from 'chai'
import fc from 'fast-check'
import {
  listedUris,
  mayExpandTo,
  sourceOfWrapped,
  templateOf,
  wrappedUri,
} from 'svc-sdk/internal/federation/names'
import { propertyRuns } from '../../support/property-runs.js'

const text = fc.string({ minLength: 1, unit: 'grapheme' })

describe('the URIs of resources of several servers', () => {
  it('name server and URI if they are wrapped', () => {
    fc.assert(
      fc.property(text, text, (server, name) => {
        expect(sourceOfWrapped(wrappedUri({ server, name }))).to.deep.equal({ server, name })
      }),
      { numRuns: propertyRuns(300) },
    )
    for (const uri of ['svc:', 'svc:files', 'svc:/x', 'svc:%zz/x', 'file:///svc:files/x']) {
      expect(sourceOfWrapped(uri), uri).to.equal(undefined)
    }
  })

  it('are wrapped if two servers have the same URI', () => {
    const sources = [
      { server: 'a', name: 'note://1' },
      { server: 'b', name: 'note://1' },
      { server: 'b', name: 'note://2' },
    ]
    expect(listedUris(sources)).to.deep.equal(['svc:a/note://1', 'svc:b/note://1', 'note://2'])
  })

  it('are compared with templates by their literals', () => {
    for (const [template, uri, expected] of [
      ['demo://text/{id}', 'demo://text/1', true],
      ['demo://text/{id}', 'demo://blob/1', false],
      ['demo://{kind}/x/{id}/end', 'demo://text/x/1/end', true],
      ['demo://{kind}/x/{id}/end', 'demo://text/y/1/end', false],
      ['demo://{kind}/x/{id}/end', 'demo://text/x/1', false],
      ['file:///{+path}', 'file:///a/b', true],
      ['search://{?q}', 'search://?q=1', true],
      ['a{x}a', 'a', false],
      ['plain://1', 'plain://1', true],
      ['plain://1', 'plain://12', false],
    ] as const) {
      expect(mayExpandTo(templateOf(template), uri), `${template} ${uri}`).to.equal(expected)
    }
  })
})
