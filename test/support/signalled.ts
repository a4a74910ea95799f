/** A promise, and what resolves it. */
export function signalled<T = void>() {
  let resolve: (value: T) => void = () => undefined
  const happened = new Promise<T>((settle) => {
    resolve = settle
  })
  return { happened, resolve }
}
