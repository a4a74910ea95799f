// A worker that starts, and whose channel to the main process then ends, while the process goes on.
process.once('message', ({ id }: { readonly id: number }) => {
  process.send?.({ kind: 'result', id }, () => process.disconnect())
})
setInterval(() => undefined, 1_000)
