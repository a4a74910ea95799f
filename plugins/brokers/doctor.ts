// For `svc doctor`: the keys of a broker, and its token endpoint.
import { checkServer, checkUsable, type DoctorCheck } from '@svc/core'
import { authOf, type BrokerInput } from './create-broker.js'

export async function checkSources(input: BrokerInput): Promise<readonly DoctorCheck[]> {
  const { server, config, keys, header } = input
  if (config.type === 'oidc_on_behalf') {
    const hint = `set what brokers.${server} names as its secret or private key`
    const subject = `the credential of brokers.${server} at its token endpoint`
    return [
      await checkUsable(subject, hint, () => authOf(input).authenticate()),
      ...(await checkServer(`the token endpoint of brokers.${server}`, config.token_endpoint ?? '')),
    ]
  }
  const refs = config.key_refs ?? []
  return Promise.all(
    refs.map((ref, index) =>
      checkUsable(
        `brokers.${server}.key_refs[${index}]`,
        'set the variable or file that it names',
        async () => header.value(await keys.get(ref)),
      ),
    ),
  )
}
