import { metadataPath, metadataUrl, resourceUrl } from '@svc/core/http'
import { expect } from 'chai'

describe('the gateway as a protected resource', () => {
  it('is identified by its URL, and each server by the URL of its MCP endpoint', () => {
    expect(resourceUrl('https://gw.example')).to.equal('https://gw.example')
    expect(resourceUrl('https://gw.example', 'files')).to.equal('https://gw.example/mcp/files')
    expect(resourceUrl('https://gw.example/tools', 'a/b c')).to.equal(
      'https://gw.example/tools/mcp/a%2Fb%20c',
    )
  })

  it('has its metadata between host and path (RFC 9728 §3.1)', () => {
    const known = 'https://gw.example:8443/.well-known/oauth-protected-resource'
    expect(metadataUrl('https://gw.example:8443')).to.equal(known)
    expect(metadataUrl('https://gw.example:8443/tools/mcp/files')).to.equal(`${known}/tools/mcp/files`)
  })

  it('is recognised by the path of its metadata', () => {
    expect(metadataPath('/.well-known/oauth-protected-resource')).to.equal('')
    expect(metadataPath('/.well-known/oauth-protected-resource/mcp/files')).to.equal('/mcp/files')
    expect(metadataPath('/.well-known/oauth-protected-resources')).to.equal(undefined)
    expect(metadataPath('/.well-known/openid-configuration')).to.equal(undefined)
  })
})
