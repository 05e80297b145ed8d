# Erlang: an echo service and its client in one virtual machine, with each of Erlang's three socket modes.
# shellcheck shell=bash
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh" "$1"
cat > echo.escript << 'EOF'
#!/usr/bin/env escript
main(_) -> [run(Active, Size) || Active <- [false, once, true], Size <- [20, 2000]].
run(Active, Size) ->
    {ok, L} = gen_tcp:listen(0, [binary, {packet, 4}, {active, false}, {reuseaddr, true}]),
    {ok, Port} = inet:port(L),
    spawn(fun() -> {ok, S} = gen_tcp:accept(L), echo(S) end),
    {ok, C} = gen_tcp:connect("localhost", Port, [binary, {packet, 4}, {active, Active}]),
    Sum = lists:sum([round(C, Active, binary:copy(<<I>>, Size)) || I <- lists:seq(1, 200)]),
    io:format("~p ~p: ~p bytes~n", [Active, Size, Sum]),
    gen_tcp:close(C).
round(C, Active, Message) ->
    ok = gen_tcp:send(C, Message),
    Got = case Active of
        false -> {ok, M} = gen_tcp:recv(C, 0, 20000), M;
        _ -> receive {tcp, C, M} -> M after 20000 -> <<>> end
    end,
    case Active of once -> inet:setopts(C, [{active, once}]); _ -> ok end,
    Message = Got,
    byte_size(Got).
echo(S) -> case gen_tcp:recv(S, 0) of {ok, M} -> gen_tcp:send(S, M), echo(S); _ -> ok end.
EOF
HOME=$PWD escript echo.escript
